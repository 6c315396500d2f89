"""Ranges on any T-SQL engine: bounds come from the server and go back typed, every row is in one range."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

import pytest

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.model.key_range import KeyRange, ranges_between
from airflow_provider_mssql_cdc.planning.keys import KeyChoice
from airflow_provider_mssql_cdc.planning.ranges import drive, key_of, plan_ranges
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.snapshot import count_range, first_key, select_range
from tests.contract.tables import Made, made
from tests.contract.target import Target

pytestmark = pytest.mark.portable


@dataclass(frozen=True, slots=True)
class KeyCase:
    """A key, and literals for some rows of it (a row per item, ``n`` numbers them)."""

    definition: str
    key: tuple[str, ...]
    rows: tuple[str, ...]

    @property
    def inserts(self) -> list[str]:
        return [f"INSERT INTO {{t}} VALUES ({number}, {row})" for number, row in enumerate(self.rows)]


def _numbered(template: str, count: int = 12) -> tuple[str, ...]:
    return tuple(template.format(number) for number in range(count))


CASES = {
    "int": KeyCase("k int NOT NULL", ("k",), ("-2147483648", "-1", "0", "1", "7", "2147483647")),
    "bigint": KeyCase("k bigint NOT NULL", ("k",), ("-9223372036854775808", "0", "1", "9223372036854775807")),
    "tinyint": KeyCase("k tinyint NOT NULL", ("k",), ("0", "1", "128", "255")),
    "smallint": KeyCase("k smallint NOT NULL", ("k",), ("-32768", "-1", "0", "32767")),
    "decimal": KeyCase(
        "k decimal(18,4) NOT NULL", ("k",), ("-99999999999999.9999", "0", "1.5", "99999999999999.9999")
    ),
    "decimal(38,0)": KeyCase(
        "k decimal(38,0) NOT NULL", ("k",), ("-99999999999999999999999999999999999999", "0", "7", "9" * 38)
    ),
    "money": KeyCase(
        "k money NOT NULL", ("k",), ("-922337203685477.5808", "0", "0.0001", "922337203685477.5807")
    ),
    "date": KeyCase(
        "k date NOT NULL", ("k",), ("'0001-01-01'", "'1999-12-31'", "'2024-02-29'", "'9999-12-31'")
    ),
    "datetime": KeyCase(
        "k datetime NOT NULL",
        ("k",),
        tuple(f"'2024-05-01T12:00:00.{part}'" for part in ("000", "003", "007", "010", "997")),
    ),
    "smalldatetime": KeyCase("k smalldatetime NOT NULL", ("k",), _numbered("'2024-05-01T12:{:02d}:00'")),
    "datetime2(3)": KeyCase("k datetime2(3) NOT NULL", ("k",), _numbered("'2024-05-01T12:00:00.{:03d}'")),
    "datetime2(6)": KeyCase("k datetime2(6) NOT NULL", ("k",), _numbered("'2024-05-01T12:00:00.{:06d}'")),
    "char": KeyCase("k char(6) NOT NULL", ("k",), ("'a'", "'B'", "'c d'", "''", "'zz'", "'{{ 7 }}'")),
    "varchar": KeyCase(
        "k varchar(20) NOT NULL", ("k",), ("'a'", "'B'", "'%s'", "'it''s'", "'100%%'", "']'", "'--'")
    ),
    "nvarchar": KeyCase(
        "k nvarchar(20) NOT NULL", ("k",), ("N'a'", "N'é'", "N'日本'", "N'Ω'", "N'ж'", "N'zz'")
    ),
    "binary": KeyCase(
        "k binary(4) NOT NULL", ("k",), ("0x00000000", "0x00000027", "0x7F000000", "0xFFFFFFFF")
    ),
    "varbinary": KeyCase("k varbinary(9) NOT NULL", ("k",), ("0x", "0x01", "0x41424344", "0xFFFF", "0xFF")),
    "uniqueidentifier": KeyCase(
        "k uniqueidentifier NOT NULL",
        ("k",),
        tuple(
            f"'{text}'"
            for text in (
                "00000000-0000-0000-0000-000000000001",
                "00000000-0000-0000-0100-000000000000",
                "01000000-0000-0000-0000-000000000000",
                "00000000-0000-0001-0000-000000000000",
                "FFFFFFFF-0000-0000-0000-000000000000",
            )
        ),
    ),
    "float": KeyCase(
        "k float NOT NULL", ("k",), ("-1.7E308", "-0.1", "0", "0.1", "0.30000000000000004", "1E-300")
    ),
    "a bit and an int": KeyCase("b bit NOT NULL, k int NOT NULL", ("b", "k"), _numbered("{0} % 2, {0}")),
    "text and a number": KeyCase(
        "code varchar(10) NOT NULL, k int NOT NULL",
        ("code", "k"),
        _numbered("CASE {0} % 3 WHEN 0 THEN 'foo' WHEN 1 THEN 'bar' ELSE 'qux' END, {0}", 15),
    ),
    "four columns": KeyCase(
        "a int NOT NULL, b date NOT NULL, c varchar(5) NOT NULL, d bigint NOT NULL",
        ("a", "b", "c", "d"),
        _numbered("{0} / 6, '2024-01-0{1}', 'x', {0}".replace("{1}", "1"), 14),
    ),
    "NULLs in a named column": KeyCase(
        "k int NULL, x varchar(5) NULL",
        ("k", "x"),
        ("NULL, NULL", "NULL, 'a'", "1, NULL", "1, 'a'", "1, 'b'", "2, NULL", "2, NULL", "3, 'z'"),
    ),
    "smallmoney": KeyCase(
        "k smallmoney NOT NULL", ("k",), ("-214748.3648", "-0.0001", "0", "0.0001", "214748.3647")
    ),
    "real": KeyCase("k real NOT NULL", ("k",), ("-3.25E38", "-0.1", "0", "0.1", "1.5", "3.25E38")),
    "time(3)": KeyCase("k time(3) NOT NULL", ("k",), _numbered("'23:59:58.{:03d}'")),
    "datetimeoffset(3)": KeyCase(
        "k datetimeoffset(3) NOT NULL", ("k",), _numbered("'2024-05-01T12:00:{:02d}.500+02:00'")
    ),
    "texts of a binary collation": KeyCase(
        "k varchar(9) COLLATE Latin1_General_BIN2 NOT NULL",
        ("k",),
        ("'a'", "'B'", "'b'", "'A'", "'aa'", "''"),
    ),
    "spellings under one leading value": KeyCase(
        "t varchar(9) COLLATE Latin1_General_CI_AS NOT NULL, k int NOT NULL",
        ("t", "k"),
        _numbered("CASE {0} % 3 WHEN 0 THEN 'ab' WHEN 1 THEN 'AB' ELSE 'aB ' END, {0}", 14),
    ),
    "a date between a text and a number": KeyCase(
        "t nvarchar(9) NOT NULL, d date NOT NULL, k bigint NOT NULL",
        ("t", "d", "k"),
        _numbered("CASE {0} % 2 WHEN 0 THEN N'ä' ELSE N'z' END, '2024-02-29', {0}", 13),
    ),
    "sixteen columns": KeyCase(
        ", ".join(f"k{number} smallint NOT NULL" for number in range(16)),
        tuple(f"k{number}" for number in range(16)),
        _numbered(", ".join(["1"] * 13 + ["{0} / 8", "{0} / 4", "{0}"]), 16),
    ),
    "a value that repeats": KeyCase("k int NOT NULL", ("k",), ("1",) * 5 + ("2",) * 4 + ("3",)),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> KeyCase:
    return CASES[request.param]


def _bounds_between_all(
    session: SourceSession, table: Made, case: KeyCase, *, per_range: int
) -> list[KeyRange]:
    columns = tuple(table.column(name) for name in case.key)
    keys = KeyChoice(key=columns, split_by=columns)
    steps = plan_ranges(table.table, keys, rows_per_range=per_range, max_ranges=100)
    plan = drive(steps, partial(session.rows))
    assert plan.method in {"keyset", "arithmetic"} or len(case.rows) <= per_range, plan.reason
    return list(plan.ranges)


@pytest.mark.parametrize("per_range", [1, 2, 5])
def test_every_row_is_in_exactly_one_range(
    target: Target, session: SourceSession, case: KeyCase, per_range: int
) -> None:
    with made(target, session, f"n int NOT NULL, {case.definition}", *case.inserts) as table:
        split_by = tuple(table.column(name) for name in case.key)
        ranges = _bounds_between_all(session, table, case, per_range=per_range)
        planned = plan_columns(table.columns, {}).columns
        schema = captured_schema([column.lake for column in planned])
        found: Counter[int] = Counter()
        for key_range in ranges:
            statement = select_range(table.table, planned, split_by=split_by, key_range=key_range)
            rows = [n for batch in session.read(statement, schema) for n in batch.column("n").to_pylist()]
            counted = session.value(count_range(table.table, split_by, key_range))
            assert int(counted) == len(rows)
            found.update(rows)
        assert found == Counter(range(len(case.rows)))
        if per_range == 1:
            assert len(ranges) >= min(len(set(case.rows)), 3)


def test_a_bound_finds_the_row_that_it_was_rendered_from(
    target: Target, session: SourceSession, case: KeyCase
) -> None:
    """The text that the server renders comes back as the same value: ``>=`` has the row, ``<`` has not."""
    with made(target, session, f"n int NOT NULL, {case.definition}", *case.inserts) as table:
        columns = tuple(table.column(name) for name in case.key)
        count = len(case.rows)
        for descending in (False, True):
            row = session.rows(first_key(table.table, columns, descending=descending))[0]
            bound = key_of(row, columns)
            below, above = ranges_between([bound])
            counts = [int(session.value(count_range(table.table, columns, part))) for part in (below, above)]
            assert sum(counts) == count
            assert counts[1] == count if not descending else counts[1] >= 1
