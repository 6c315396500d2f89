"""Order and equality are SQL Server's: collations, trailing blanks, NULLs, GUIDs, ticks, offsets."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Session

EQUAL = [
    ("SQL_Latin1_General_CP1_CI_AS", "n", "N", True),
    ("SQL_Latin1_General_CP1_CI_AS", "n", "n   ", True),
    ("SQL_Latin1_General_CP1_CI_AS", "e", "é", False),
    ("Latin1_General_CI_AI", "e", "É", True),
    ("Latin1_General_CS_AS", "n", "N", False),
    ("Latin1_General_CS_AS", "n", "n ", True),
    ("Latin1_General_BIN2", "n", "N", False),
    ("Latin1_General_BIN2", "n", "n ", True),
    ("Cyrillic_General_CI_AS", "привет", "ПРИВЕТ", True),
    ("Greek_CI_AS", "αθηνα", "ΑΘΗΝΑ", True),
    ("Latin1_General_100_CI_AS_SC_UTF8", "straße", "STRAßE", True),
]


@pytest.mark.parametrize(("collation", "left", "right", "equal"), EQUAL)
def test_collations_decide_what_is_equal(
    session: Session, collation: str, left: str, right: str, equal: bool
) -> None:
    session.run(f"CREATE TABLE t (c nvarchar(20) COLLATE {collation})")
    session.run("INSERT INTO t VALUES (@p1)", left)
    found = session.rows(f"SELECT COUNT(*) FROM t WHERE c = @p1 COLLATE {collation}", right)
    assert found == [(int(equal),)]
    grouped = session.rows(
        f"SELECT COUNT(DISTINCT c) FROM (SELECT c FROM t UNION ALL SELECT @p1 COLLATE {collation}) AS u(c)",
        right,
    )
    assert grouped == [(1 if equal else 2,)]


@pytest.mark.parametrize(
    ("collation", "ordered"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", ["_", "1", "a", "á", "B", "c"]),
        ("Latin1_General_CS_AS", ["_", "1", "a", "A", "b", "B"]),
        ("Latin1_General_BIN2", ["1", "A", "B", "_", "a", "b"]),
    ],
)
def test_collations_decide_the_order(session: Session, collation: str, ordered: list[str]) -> None:
    session.run(f"CREATE TABLE t (c nvarchar(20) COLLATE {collation} NOT NULL PRIMARY KEY)")
    session.executemany("INSERT INTO t VALUES (?)", [(c,) for c in reversed(ordered)])
    assert [c for (c,) in session.rows("SELECT c FROM t ORDER BY c")] == ordered
    assert session.rows("SELECT MIN(c), MAX(c) FROM t") == [(ordered[0], ordered[-1])]


def test_a_case_insensitive_key_refuses_the_other_case(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (c varchar(20) NOT NULL PRIMARY KEY)")
    session.run("INSERT INTO t VALUES ('abc')")
    assert error_of(session, "INSERT INTO t VALUES ('ABC ')") == 2627


def test_nulls_come_first(session: Session) -> None:
    session.run("CREATE TABLE t (c int NULL)")
    session.run("INSERT INTO t VALUES (1), (NULL), (0)")
    assert session.rows("SELECT c FROM t ORDER BY c") == [(None,), (0,), (1,)]
    assert session.rows("SELECT c FROM t ORDER BY c DESC") == [(1,), (0,), (None,)]


def test_guids_order_by_their_last_group_first(session: Session) -> None:
    ordered = [
        "FF000000-0000-0000-0000-000000000001",
        "00000000-0000-0000-0001-000000000001",
        "00000000-0000-0000-0000-000000000002",
        "00000000-0000-0000-0000-010000000000",
    ]
    session.run("CREATE TABLE t (g uniqueidentifier NOT NULL PRIMARY KEY)")
    session.executemany("INSERT INTO t VALUES (?)", [(g,) for g in sorted(ordered)])
    assert [g for (g,) in session.rows("SELECT CAST(g AS varchar(36)) FROM t ORDER BY g")] == ordered


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2020-01-01T00:00:00.000", "2020-01-01 00:00:00.000"),
        ("2020-01-01T00:00:00.001", "2020-01-01 00:00:00.000"),
        ("2020-01-01T00:00:00.002", "2020-01-01 00:00:00.003"),
        ("2020-01-01T00:00:00.005", "2020-01-01 00:00:00.007"),
        ("2020-01-01T00:00:00.009", "2020-01-01 00:00:00.010"),
        ("2020-01-01T23:59:59.999", "2020-01-02 00:00:00.000"),
    ],
)
def test_datetime_is_kept_in_ticks_of_a_three_hundredth(session: Session, text: str, stored: str) -> None:
    assert session.rows(f"SELECT CONVERT(varchar(30), CAST('{text}' AS datetime), 121)") == [(stored,)]


def test_datetimeoffset_compares_by_instant(session: Session) -> None:
    session.run("CREATE TABLE t (d datetimeoffset(7) NOT NULL PRIMARY KEY)")
    session.run("INSERT INTO t VALUES ('2020-01-01 12:00 +02:00'), ('2020-01-01 11:00 +00:00')")
    shown = session.rows("SELECT CAST(d AS varchar(40)) FROM t ORDER BY d")
    assert [d for (d,) in shown] == [
        "2020-01-01 12:00:00.0000000 +02:00",
        "2020-01-01 11:00:00.0000000 +00:00",
    ]
    assert session.rows("SELECT COUNT(*) FROM t WHERE d = '2020-01-01 10:00 +00:00'") == [(1,)]


def test_decimals_of_38_digits_keep_their_order(session: Session) -> None:
    session.run("CREATE TABLE t (d decimal(38,0) NOT NULL PRIMARY KEY)")
    session.run("INSERT INTO t VALUES (0), (-1), (1), (99999999999999999999999999999999999999)")
    session.run("INSERT INTO t VALUES (-99999999999999999999999999999999999999)")
    found = [int(d) for (d,) in session.rows("SELECT d FROM t ORDER BY d")]
    assert found == sorted(found)
    assert len(found) == 5


def test_a_collation_conflict_is_an_error(session: Session, error_of) -> None:
    session.run(
        "CREATE TABLE t (a varchar(5) COLLATE Latin1_General_CS_AS, b varchar(5) COLLATE "
        "Latin1_General_CI_AS)"
    )
    assert error_of(session, "SELECT 1 FROM t WHERE a = b") == 468


@pytest.mark.parametrize(
    ("collation", "text", "stored"),
    [
        ("SQL_Latin1_General_CP1_CI_AS", "Αé€", "?é€"),
        ("Greek_CI_AS", "Αθήνα", "Αθήνα"),
        ("Cyrillic_General_CI_AS", "привет", "привет"),
        ("Chinese_PRC_CI_AS", "中文", "中文"),
        ("Japanese_CI_AS", "日本", "日本"),
        ("Latin1_General_100_CI_AS_SC_UTF8", "😀é", "😀é"),
    ],
)
def test_varchar_holds_what_its_code_page_holds(
    session: Session, collation: str, text: str, stored: str
) -> None:
    session.run(f"CREATE TABLE t (c varchar(20) COLLATE {collation})")
    session.run("INSERT INTO t VALUES (@p1)", text)
    assert session.rows("SELECT c FROM t") == [(stored,)]
    assert session.rows(f"SELECT CAST(@p1 COLLATE {collation} AS varchar(20))", text) == [(stored,)]


def test_a_greek_bound_without_collate_goes_through_the_databases_code_page(session: Session) -> None:
    assert session.rows("SELECT CAST(@p1 AS varchar(20))", "Αθήνα") == [("?????",)]
