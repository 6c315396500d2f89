"""Values come back as they went in, at each type's edges, as parameters, literals, text and bulk rows."""

from __future__ import annotations

import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Session

WIDE = Decimal("9" * 38)
GUID = uuid.UUID("0e984725-c51c-4bf4-9960-e1c80e27aba0")
VALUES: list[tuple[str, Any]] = [
    ("bit", True),
    ("tinyint", 255),
    ("smallint", -32768),
    ("int", -(2**31)),
    ("bigint", 2**63 - 1),
    ("bigint", -(2**63)),
    ("decimal(18,4)", Decimal("-12345678901234.5678")),
    ("decimal(38,0)", WIDE),
    ("decimal(38,0)", WIDE.copy_negate()),
    ("decimal(38,38)", Decimal("0." + "9" * 38)),
    ("money", Decimal("922337203685477.5807")),
    ("money", Decimal("-922337203685477.5808")),
    ("smallmoney", Decimal("-214748.3648")),
    ("float", 1.7976931348623157e308),
    ("float", 5e-324),
    ("real", 3.4028234663852886e38),
    ("date", date(1, 1, 1)),
    ("date", date(9999, 12, 31)),
    ("time(7)", time(23, 59, 59, 999999)),
    ("datetime", datetime(1753, 1, 1)),
    ("datetime", datetime(9999, 12, 31, 23, 59, 59, 997000)),
    ("smalldatetime", datetime(2079, 6, 6, 23, 59)),
    ("datetime2(7)", datetime(1, 1, 1)),
    ("datetime2(7)", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("datetimeoffset(7)", datetime(2020, 1, 1, 5, tzinfo=timezone(timedelta(hours=-14)))),
    ("datetimeoffset(7)", datetime(1, 1, 1, tzinfo=UTC)),
    ("varchar(10)", "trail   "),
    ("varchar(10)", ""),
    ("nvarchar(10)", "emoji😀"),
    ("nvarchar(10)", "a\0b"),
    ("varchar(max)", "x" * 20_000),
    ("nvarchar(max)", "é" * 20_000),
    ("varbinary(10)", b"\x00\xff"),
    ("varbinary(max)", b"\x01" * 20_000),
    ("image", b"\x01\x02"),
    ("text", "some text"),
    ("xml", "<a/>"),
    ("uniqueidentifier", GUID),
]


WIDENED: list[tuple[str, str, str]] = [
    ("money", "decimal(19,4)", "922337203685477.5807"),
    ("money", "decimal(19,4)", "-922337203685477.5808"),
    ("money", "decimal(38,4)", "0"),
    ("smallmoney", "decimal(19,4)", "-214748.3648"),
    ("decimal(18,4)", "decimal(19,4)", "-99999999999999.9999"),
    ("decimal(9,2)", "decimal(38,2)", "7654321.09"),
    ("decimal(9,2)", "decimal(38,3)", "7654321.09"),
    ("uniqueidentifier", "varchar(36)", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
    ("uniqueidentifier", "nvarchar(max)", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
]


@pytest.mark.parametrize(("source", "target", "text"), WIDENED)
def test_a_type_that_holds_more_gets_the_value_as_it_is(
    session: Session, source: str, target: str, text: str
) -> None:
    value: Any = uuid.UUID(text) if source == "uniqueidentifier" else Decimal(text)
    session.run(f"CREATE TABLE t (v {source}, n int)")
    session.executemany("INSERT INTO t VALUES (?, ?)", [(value, 1), (None, 2)])
    found = session.rows(f"SELECT CAST(v AS {target}) FROM t ORDER BY n")
    assert found == [(text if source == "uniqueidentifier" else value,), (None,)]


@pytest.mark.parametrize(("declared", "value"), VALUES)
def test_a_value_survives_a_parameter_and_a_bulk_row(session: Session, declared: str, value: Any) -> None:
    session.run(f"CREATE TABLE t (v {declared})")
    session.run("INSERT INTO t VALUES (@p1)", value)
    session.executemany("INSERT INTO t VALUES (?)", [(value,), (None,)])
    assert session.rows("SELECT v FROM t") == [(value,), (value,), (None,)]


TEXTS = [
    ("bit", "1"),
    ("bigint", "-9223372036854775808"),
    ("decimal(38,10)", "1234567890123456789012345678.0123456789"),
    ("date", "0001-01-01"),
    ("time(0)", "23:59:59"),
    ("time(7)", "00:00:00.0000001"),
    ("datetime2(7)", "0001-01-01 00:00:00.0000001"),
    ("datetime2(3)", "2020-01-01 00:00:00.123"),
    ("datetimeoffset(7)", "9999-12-31 23:59:59.9999999 +00:00"),
    ("datetimeoffset(0)", "2020-01-01 00:00:00 -14:00"),
    ("uniqueidentifier", "0E984725-C51C-4BF4-9960-E1C80E27ABA0"),
]


@pytest.mark.parametrize(("declared", "text"), TEXTS)
def test_text_to_a_type_and_back_is_the_same_text(session: Session, declared: str, text: str) -> None:
    assert session.rows(f"SELECT CAST(CAST(@p1 AS {declared}) AS varchar(60))", text) == [(text,)]


CONVERSIONS = [
    ("CONVERT(varchar(30), CAST('2020-01-02 15:04:05.123' AS datetime), 121)", "2020-01-02 15:04:05.123"),
    ("CONVERT(varchar(30), CAST('2020-01-02 15:04:05.123' AS datetime), 126)", "2020-01-02T15:04:05.123"),
    ("CONVERT(varchar(30), CAST('2020-01-02 15:04:05' AS datetime), 126)", "2020-01-02T15:04:05"),
    (
        "CONVERT(varchar(40), CAST('2020-01-02 15:04:05 +02:00' AS datetimeoffset(3)), 127)",
        "2020-01-02T13:04:05.000Z",
    ),
    (
        "CONVERT(varchar(40), CAST('2020-01-02 15:04:05 +02:00' AS datetimeoffset(3)), 126)",
        "2020-01-02T15:04:05.000+02:00",
    ),
    ("CONVERT(varchar(22), 0x00000021000000A80005, 1)", "0x00000021000000A80005"),
    ("CONVERT(varchar(22), 0x0021, 2)", "0021"),
    ("CONVERT(varchar(30), CAST(0.1 AS float), 3)", "1.0000000000000001e-001"),
    ("CONVERT(varchar(20), CAST(1234.5678 AS money), 2)", "1234.5678"),
    ("CAST(5 AS char(3)) + '|'", "5  |"),
    ("CAST(12345 AS varchar(3))", "*"),
    ("CAST('abcdef' AS varchar(3))", "abc"),
    ("CONCAT('a', NULL, 1, N'é')", "a1é"),
]


@pytest.mark.parametrize(("expression", "text"), CONVERSIONS)
def test_conversions_to_text_are_spelled_as_sql_server_spells_them(
    session: Session, expression: str, text: str
) -> None:
    assert session.rows(f"SELECT {expression}") == [(text,)]


PLAIN = [
    ("CONVERT(binary(10), '0x21', 1)", b"\x21" + b"\0" * 9),
    ("CAST(255 AS binary(8))", b"\0" * 7 + b"\xff"),
    ("7 / 2", 3),
    ("-7 / 2", -3),
    ("-7 % 3", -1),
    ("10 / 4.0", Decimal("2.500000")),
    ("2147483648 - 1", Decimal(2147483647)),
    ("CAST(1.005 AS decimal(5,2))", Decimal("1.01")),
    ("CAST(2.5 AS int)", 2),
    ("LEN('ab  ')", 2),
    ("LEN(N'😀')", 2),
    ("DATALENGTH(N'abc')", 6),
    ("DATALENGTH(CAST('a' AS char(5)))", 5),
    ("DATEDIFF(day, '2020-02-28', '2020-03-01')", 2),
    ("CAST(CAST('2020-01-01 12:00 +02:00' AS datetimeoffset) AS datetime2(0))", datetime(2020, 1, 1, 12)),
    ("CAST('2020-01-01 12:00' AS datetime2) AT TIME ZONE 'UTC'", datetime(2020, 1, 1, 12, tzinfo=UTC)),
    ("COALESCE(NULL, 5)", 5),
    ("ISNULL(CAST(NULL AS varchar(2)), 'abc')", "ab"),
    ("UPPER('äbc') + LOWER('ÄBC')", "ÄBCäbc"),
    ("REPLACE('aXbxc', 'x', '-')", "a-b-c"),
    ("CHAR(65) + NCHAR(1078)", "Aж"),
    ("CASE WHEN 1 = 0 THEN 1 END", None),
]


@pytest.mark.parametrize(("expression", "value"), PLAIN)
def test_expressions_have_sql_servers_values(session: Session, expression: str, value: Any) -> None:
    ((found,),) = session.rows(f"SELECT {expression}")
    assert found == value or str(found) == value


def test_char_columns_are_padded_and_varchar_columns_keep_their_blanks(session: Session) -> None:
    session.run("CREATE TABLE t (c char(4), n nchar(4), v varchar(4), b binary(4))")
    session.run("INSERT INTO t VALUES ('a', N'é', 'b ', 0x01)")
    assert session.rows("SELECT * FROM t") == [("a   ", "é   ", "b ", b"\x01\0\0\0")]


def test_result_columns_are_typed_as_the_catalog_types_them(session: Session) -> None:
    session.run(
        "CREATE TABLE t (a int NOT NULL, b varchar(5) COLLATE Greek_CI_AS, c decimal(9,2), d "
        "datetime2(3), rv rowversion)"
    )
    result = next(iter(session.execute("SELECT a, b, c, d, rv, a + 1, N'x', COUNT(*) OVER () FROM t")))
    shown = [
        (c.name, c.type.name, c.type.length, c.type.precision, c.type.scale, c.nullable)
        for c in result.columns
    ]
    assert shown == [
        ("a", "int", None, None, None, False),
        ("b", "varchar", 5, None, None, True),
        ("c", "decimal", None, 9, 2, True),
        ("d", "datetime2", None, None, 3, True),
        ("rv", "timestamp", None, None, None, False),
        ("", "int", None, None, None, False),
        ("", "nvarchar", 2, None, None, False),
        ("", "int", None, None, None, False),
    ]
    assert result.columns[1].type.collation == "Greek_CI_AS"


def test_sums_have_sql_servers_types_and_overflow(session: Session, error_of) -> None:
    session.run("CREATE TABLE t (i int, b bigint, d decimal(5,2), w decimal(38,2), m money)")
    session.run("INSERT INTO t VALUES (2147483647, 1, 1.25, 1.5, 1), (-1, 2, 2.25, 2.5, 2)")
    assert session.rows("SELECT SUM(i), SUM(b) FROM t") == [(2147483646, 3)]
    session.run("UPDATE t SET i = 2147483647")
    assert error_of(session, "SELECT SUM(i) FROM t") == 8115


def test_textsize_cuts_long_values_without_an_error(session: Session) -> None:
    session.run("CREATE TABLE t (v varchar(max), n nvarchar(max), b varbinary(max), s varchar(100))")
    session.run("INSERT INTO t VALUES ('abcdef', N'abcdef', 0x010203040506, 'abcdef')")
    assert session.rows("SET TEXTSIZE 4; SELECT * FROM t") == [("abcd", "ab", b"\1\2\3\4", "abcdef")]
    assert session.rows("SET TEXTSIZE -1; SELECT v, @@TEXTSIZE FROM t") == [("abcdef", 2147483647)]


@pytest.mark.parametrize(
    ("local", "shown"),
    [
        ("2022-03-27 01:59:00", "2022-03-27 01:59:00 +01:00"),
        ("2022-03-27 02:30:00", "2022-03-27 03:30:00 +02:00"),
        ("2022-10-30 02:30:00", "2022-10-30 02:30:00 +02:00"),
        ("2022-10-30 03:00:00", "2022-10-30 03:00:00 +01:00"),
    ],
)
def test_at_time_zone_follows_the_clock_changes(session: Session, local: str, shown: str) -> None:
    zone = "'W. Europe Standard Time'"
    sql = f"SELECT CAST(CAST('{local}' AS datetime2(0)) AT TIME ZONE {zone} AS varchar(40))"
    assert session.rows(sql) == [(shown,)]
    instant = f"CAST('{shown}' AS datetimeoffset(0)) AT TIME ZONE 'UTC'"
    back = f"SELECT CAST({instant} AT TIME ZONE {zone} AS varchar(40))"
    assert session.rows(back) == [(shown,)]


NUMBERS = [
    *(("tinyint", end) for end in ("0", "255")),
    *(("smallint", end) for end in ("-32768", "32767")),
    *(("int", end) for end in ("-2147483648", "2147483647")),
    *(("bigint", end) for end in ("-9223372036854775808", "9223372036854775807")),
    *(("smallmoney", end) for end in ("-214748.3648", "214748.3647")),
    *(("money", end) for end in ("-922337203685477.5808", "922337203685477.5807")),
    *(
        (f"decimal({p},{s})", sign + ("9" * (p - s) or "0") + ("." + "9" * s if s else ""))
        for p, s in (
            (1, 0),
            (9, 2),
            (18, 0),
            (18, 18),
            (19, 0),
            (19, 9),
            (38, 0),
            (38, 1),
            (38, 9),
            (38, 37),
            (38, 38),
        )
        for sign in ("", "-")
    ),
]


@pytest.mark.parametrize(("declared", "text"), NUMBERS)
def test_a_literal_at_either_end_of_a_type_fits_it_with_its_sign(
    session: Session, declared: str, text: str
) -> None:
    """A sign is not a digit."""
    value, plus = Decimal(text), text if text.startswith("-") else f"+{text}"
    session.run(f"CREATE TABLE t (v {declared})")
    session.run(f"INSERT INTO t VALUES ({text}), ({plus}), (-(-({text})))")
    session.run("INSERT INTO t VALUES (@p1)", int(value) if value == int(value) else value)
    session.run(f"INSERT INTO t SELECT CAST({text} AS {declared}) WHERE {text} = {plus}")
    assert session.rows(f"SELECT DISTINCT v FROM t WHERE v = {text} AND v <= {plus} AND v IN ({text})") == [
        (value,)
    ]
    assert session.rows("SELECT COUNT(*) FROM t") == [(5,)]


@pytest.mark.parametrize("text", ["100000000000000000000000000000.0", "-100000000000000000000000000000.0"])
def test_one_more_digit_is_too_many_with_or_without_a_sign(
    session: Session, error_of: Any, text: str
) -> None:
    session.run("CREATE TABLE t (v decimal(38,9))")
    assert error_of(session, f"INSERT INTO t VALUES ({text})") == 8115
