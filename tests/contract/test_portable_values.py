"""Values, names and parameters on any T-SQL engine: both drivers read the same table, and the right one."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_mssql_cdc.planning.columns import lake_name
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql import catalog
from airflow_provider_mssql_cdc.tsql.statement import Statement, qualified
from tests.contract.tables import made, named, read
from tests.contract.target import Target

pytestmark = pytest.mark.portable

# type → (literal, value in the lake)
VALUES: dict[str, list[tuple[str, Any]]] = {
    "bit": [("0", False), ("1", True)],
    "tinyint": [("0", 0), ("255", 255)],
    "smallint": [("-32768", -32768), ("32767", 32767)],
    "int": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "bigint": [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "decimal(18,4)": [
        ("99999999999999.1111", Decimal("99999999999999.1111")),
        ("-0.0001", Decimal("-0.0001")),
    ],
    "decimal(38,10)": [("1234567890123456789012345678.1234567891",) * 2],
    "money": [("922337203685477.5807", Decimal("922337203685477.5807")), ("-1", Decimal("-1.0000"))],
    "smallmoney": [("-214748.3648", Decimal("-214748.3648")), ("214748.3647", Decimal("214748.3647"))],
    "float": [
        ("0.1", 0.1),
        ("-1.7976931348623157E308", -1.7976931348623157e308),
        ("2.2250738585072014E-308",) * 2,
    ],
    "real": [("0.5", 0.5), ("-3.25E5", -325000.0)],
    "date": [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31))],
    "datetime": [("'2024-02-29T23:59:59.997'", datetime(2024, 2, 29, 23, 59, 59, 997000))],
    "smalldatetime": [("'2024-02-29T23:59:00'", datetime(2024, 2, 29, 23, 59))],
    "datetime2(6)": [
        ("'2018-06-01T13:38:03.499001'", datetime(2018, 6, 1, 13, 38, 3, 499001)),
        ("'9999-12-31T23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ],
    "datetime2(0)": [("'2018-06-01T13:38:03'", datetime(2018, 6, 1, 13, 38, 3))],
    "char(5)": [("'ab'", "ab   "), ("''", "     ")],
    "varchar(20)": [("''", ""), ("'it''s  '", "it's  "), ("'%(x)s ? [y]'", "%(x)s ? [y]")],
    "varchar(max)": [("REPLICATE(CAST('x' AS varchar(max)), 9000)", "x" * 9000), ("''", "")],
    "nchar(4)": [("N'é'", "é   ")],
    "nvarchar(40)": [("N'日本 Ωж'", "日本 Ωж"), ("N''", ""), ("N' trailing '", " trailing ")],
    "nvarchar(max)": [("REPLICATE(CAST(N'é' AS nvarchar(max)), 5000)", "é" * 5000)],
    "binary(4)": [("0x00FF0027", b"\x00\xff\x00\x27"), ("0x01", b"\x01\x00\x00\x00")],
    "varbinary(20)": [("0x", b""), ("0x414243", b"ABC")],
    "varbinary(max)": [
        ("CONVERT(varbinary(max), REPLICATE(CAST('AB' AS varchar(max)), 5000))", b"AB" * 5000)
    ],
    "uniqueidentifier": [("'0e984725-c51c-4bf4-9960-e1c80e27aba0'", "0E984725-C51C-4BF4-9960-E1C80E27ABA0")],
}
_AS_WRITTEN = {"decimal(38,10)": Decimal, "float": float}
HOSTILE = [
    "'; DROP TABLE dbo.x; --",
    "]",
    "[a]]b]",
    "100%",
    "%s",
    "%(p0)s",
    'a"b',
    "{{ 7 * 7 }}",
    "`",
    "ключ",
    "a.b",
]


@pytest.mark.parametrize("sql_type", VALUES)
def test_a_value_arrives_as_it_is_and_null_as_null(
    target: Target, session: SourceSession, sql_type: str
) -> None:
    as_written = _AS_WRITTEN.get(sql_type)
    wanted = {
        number: as_written(literal) if as_written and literal == value else value
        for number, (literal, value) in enumerate(VALUES[sql_type])
    }
    inserts = [
        f"INSERT INTO {{t}} VALUES ({number}, {literal})"
        for number, (literal, _) in enumerate(VALUES[sql_type])
    ]
    definition = f"n int NOT NULL PRIMARY KEY, v {sql_type} NULL"
    with made(target, session, definition, *inserts, "INSERT INTO {t} VALUES (99, NULL)") as table:
        assert {row["n"]: row["v"] for row in read(session, table)} == {**wanted, 99: None}


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_is_a_value_and_nothing_else(session: SourceSession, text: str) -> None:
    statement = Statement(
        "SELECT CAST(%(p0)s AS nvarchar(200)) AS t, CAST(%(p0)s AS nvarchar(200)) AS u", {"p0": text}
    )
    assert session.rows(statement) == [{"t": text, "u": text}]


@pytest.mark.parametrize(
    "name", ["Entry No_", "Acme Inc$Ledger Entry", "select", "100%", "it's", "what?", "1st"]
)
def test_a_name_is_quoted_wherever_it_stands(target: Target, session: SourceSession, name: str) -> None:
    with named(target, session, name) as table:
        (row,) = read(session, table)
        assert list(row.values()) == [7]
        assert table.columns[0].name == name


def test_key_columns_come_in_key_order_and_included_ones_not_at_all(
    target: Target, session: SourceSession
) -> None:
    definition = "b int NOT NULL, a int NOT NULL, c int NOT NULL, d int NULL, PRIMARY KEY (a, b)"
    with made(target, session, definition, "CREATE UNIQUE INDEX u ON {t} (c) INCLUDE (d)") as table:
        found: dict[tuple[bool, int], list[str]] = {}
        for row in session.rows(catalog.unique_indexes(table.table.object_id)):
            index = (bool(row["is_primary_key"]), int(row["index_id"]))
            found.setdefault(index, []).append(row["column_name"])
        assert sorted((key, names) for (key, _), names in found.items()) == [
            (False, ["c"]),
            (True, ["a", "b"]),
        ]


def test_the_catalog_describes_types_as_they_were_declared(target: Target, session: SourceSession) -> None:
    declared = [
        "int",
        "decimal(18,4)",
        "nvarchar(50)",
        "varchar(max)",
        "datetime2(3)",
        "binary(4)",
        "money",
        "date",
    ]
    definition = ", ".join(f"c{number} {sql_type} NULL" for number, sql_type in enumerate(declared))
    with made(target, session, definition) as table:
        assert [column.sql_type.declaration for column in table.columns] == declared
        assert all(column.nullable for column in table.columns)


def test_a_computed_column_is_known_as_one(target: Target, session: SourceSession) -> None:
    with made(target, session, "qty int NOT NULL, total AS (qty * 2)") as table:
        assert [column.computed for column in table.columns] == [False, True]


def test_the_number_of_an_error_decides_its_class(target: Target, session: SourceSession) -> None:
    from airflow_provider_mssql_cdc.errors import SourceObjectMissing

    with pytest.raises(SourceObjectMissing):
        session.rows(Statement("SELECT 1 AS one FROM dbo.there_is_no_such_table"))
    assert session.value(Statement("SELECT 1 AS one")) == 1


def test_long_values_are_not_cut(target: Target, session: SourceSession) -> None:
    with made(
        target, session, "n int NOT NULL PRIMARY KEY, t nvarchar(max) NULL, b varbinary(max) NULL"
    ) as table:
        for size in (2047, 2048, 4096, 4097, 64513, 1_000_000):
            target.run(
                f"INSERT INTO {qualified('dbo', table.table.name)} VALUES ({size}, "
                f"REPLICATE(CAST(N'x' AS nvarchar(max)), {size}), "
                f"CONVERT(varbinary(max), REPLICATE(CAST('y' AS varchar(max)), {size})))"
            )
        for row in read(session, table):
            assert len(row["t"]) == len(row["b"]) == row["n"]


def test_a_name_whose_lake_name_is_longer_than_an_identifier_is_read(
    target: Target, session: SourceSession
) -> None:
    name = "a b" * 40
    with made(
        target, session, f"n int NOT NULL PRIMARY KEY, [{name}] int NULL", "INSERT INTO {t} VALUES (1, 7)"
    ) as table:
        (row,) = read(session, table)
        assert row == {"n": 1, lake_name(name): 7}
