"""Every type, its ends, and what text and bytes can hold: both drivers give the same table, exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from tests.unit.source.conftest import DRIVERS, ServerProcess, server_process, settings_for

Column = tuple[str, Sequence[Any], Sequence[Any]]
TEXTS = ["", " ", "trailing  ", "it's", "a\0b", "tab\tnewline\n", "%(x)s {{ y }} ?", None]
WIDE = ["日本 \U0001f600", "\u05d0\u05d1", "e\u0301", "\uffff", *TEXTS]
LONG = [2047, 2048, 4096, 4097, 8001, 64513, 1_000_000, 16_777_216]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


# declaration, what is inserted, what has to be read
COLUMNS: list[Column] = [
    ("bit", [0, 1, None], [False, True, None]),
    ("tinyint", [0, 255, None], [0, 255, None]),
    ("smallint", [-32768, 32767, None], [-32768, 32767, None]),
    ("int", [-(2**31), 2**31 - 1, None], [-(2**31), 2**31 - 1, None]),
    ("bigint", [-(2**63), 2**63 - 1, None], [-(2**63), 2**63 - 1, None]),
    ("decimal(1,0)", ["9", "-9", "0"], [Decimal(9), Decimal(-9), Decimal(0)]),
    (
        "decimal(18,4)",
        ["99999999999999.9999", "-0.0001", None],
        [Decimal("99999999999999.9999"), Decimal("-0.0001"), None],
    ),
    ("decimal(38,0)", ["9" * 38, "-" + "9" * 38, None], [Decimal("9" * 38), Decimal("-" + "9" * 38), None]),
    (
        "decimal(38,38)",
        ["0." + "9" * 38, "-0." + "9" * 38],
        [Decimal("0." + "9" * 38), Decimal("-0." + "9" * 38)],
    ),
    ("numeric(20,2)", ["1.00", "-1.01"], [Decimal("1.00"), Decimal("-1.01")]),
    (
        "money",
        ["922337203685477.5807", "-922337203685477.5808", "1.0000", None],
        [Decimal("922337203685477.5807"), Decimal("-922337203685477.5808"), Decimal("1.0000"), None],
    ),
    (
        "smallmoney",
        ["214748.3647", "-214748.3648", None],
        [Decimal("214748.3647"), Decimal("-214748.3648"), None],
    ),
    (
        "real",
        [1.5, -3.4028234663852886e38, 1.1754943508222875e-38, None],
        [1.5, -3.4028234663852886e38, 1.1754943508222875e-38, None],
    ),
    (
        "float",
        [0.1, 1.7976931348623157e308, -2.2250738585072014e-308, 1 / 3, None],
        [0.1, 1.7976931348623157e308, -2.2250738585072014e-308, 1 / 3, None],
    ),
    (
        "date",
        ["0001-01-01", "9999-12-31", "1900-01-01", None],
        [date(1, 1, 1), date(9999, 12, 31), date(1900, 1, 1), None],
    ),
    (
        "datetime",
        ["1753-01-01T00:00:00.000", "9999-12-31T23:59:59.997", "2024-02-29T12:00:00.003", None],
        [
            datetime(1753, 1, 1),
            datetime(9999, 12, 31, 23, 59, 59, 997000),
            datetime(2024, 2, 29, 12, 0, 0, 3000),
            None,
        ],
    ),
    (
        "smalldatetime",
        ["1900-01-01T00:00:00", "2079-06-06T23:59:00"],
        [datetime(1900, 1, 1), datetime(2079, 6, 6, 23, 59)],
    ),
    (
        "datetime2(0)",
        ["2018-06-01T13:38:03", "9999-12-31T23:59:59"],
        [datetime(2018, 6, 1, 13, 38, 3), datetime(9999, 12, 31, 23, 59, 59)],
    ),
    ("datetime2(1)", ["2018-06-01T13:38:03.4"], [datetime(2018, 6, 1, 13, 38, 3, 400000)]),
    ("datetime2(2)", ["2018-06-01T13:38:03.49"], [datetime(2018, 6, 1, 13, 38, 3, 490000)]),
    (
        "datetime2(3)",
        ["2018-06-01T13:38:03.499", "2018-06-01T13:38:03.001"],
        [datetime(2018, 6, 1, 13, 38, 3, 499000), datetime(2018, 6, 1, 13, 38, 3, 1000)],
    ),
    ("datetime2(4)", ["2018-06-01T13:38:03.4999"], [datetime(2018, 6, 1, 13, 38, 3, 499900)]),
    ("datetime2(5)", ["2018-06-01T13:38:03.49999"], [datetime(2018, 6, 1, 13, 38, 3, 499990)]),
    ("datetime2(6)", ["2018-06-01T13:38:03.499999"], [datetime(2018, 6, 1, 13, 38, 3, 499999)]),
    (
        "datetime2(7)",
        ["0001-01-01T00:00:00.0000001", "9999-12-31T23:59:59.9999999", None],
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
    ("datetimeoffset(0)", ["2024-05-11T02:00:00+03:00"], [utc(2024, 5, 10, 23)]),
    ("datetimeoffset(3)", ["2024-05-11T02:00:00.276+03:00"], [utc(2024, 5, 10, 23, 0, 0, 276000)]),
    (
        "datetimeoffset(7)",
        [
            "2024-05-11T02:00:00.2764899+03:00",
            "0001-01-10T00:00:00+01:00",
            "9999-12-31T09:59:59.9999999-14:00",
            None,
        ],
        [utc(2024, 5, 10, 23, 0, 0, 276489), utc(1, 1, 9, 23), utc(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
    ("time(0)", ["23:59:59"], ["23:59:59.0000000"]),
    ("time(3)", ["14:30:15.234"], ["14:30:15.2340000"]),
    ("time(7)", ["14:30:15.2345678", "00:00:00", None], ["14:30:15.2345678", "00:00:00.0000000", None]),
    ("char(5)", ["ab", "", "abcde", None], ["ab   ", "     ", "abcde", None]),
    ("varchar(40)", ["café £€", *TEXTS], ["café £€", *TEXTS]),
    ("varchar(40) COLLATE Cyrillic_General_CI_AS", ["телевизор"], ["телевизор"]),
    ("varchar(40) COLLATE Greek_CI_AS", ["αβγ"], ["αβγ"]),
    ("varchar(40) COLLATE Chinese_PRC_CI_AI", ["中文"], ["中文"]),
    (
        "varchar(40) COLLATE Latin1_General_100_CI_AS_SC_UTF8",
        ["日本 \U0001f600", "£"],
        ["日本 \U0001f600", "£"],
    ),
    ("nchar(5)", ["ab", "日", None], ["ab   ", "日    ", None]),
    ("nvarchar(40)", WIDE, WIDE),
    ("varchar(max)", TEXTS, TEXTS),
    ("nvarchar(max)", WIDE, WIDE),
    ("binary(4)", [b"\x01", b"\0\0\0\0", None], [b"\x01\0\0\0", b"\0\0\0\0", None]),
    ("varbinary(10)", [b"", b"\0", b"AB'%\xff", None], [b"", b"\0", b"AB'%\xff", None]),
    (
        "varbinary(max)",
        [b"", b"\0\xff", None],
        [b"", b"\0\xff", None],
    ),
    (
        "uniqueidentifier",
        ["0e984725-c51c-4bf4-9960-e1c80e27aba0", None],
        ["0E984725-C51C-4BF4-9960-E1C80E27ABA0", None],
    ),
    ("xml", ['<a b="1">日</a>', None], ['<a b="1">日</a>', None]),
    ("text", ["long text", None], ["long text", None]),
    ("ntext", ["日本", None], ["日本", None]),
    ("image", [b"\0\x01", None], [b"\0\x01", None]),
]


@dataclass(frozen=True)
class Loaded:
    """One table per driver; column ``c<n>`` holds the values of ``COLUMNS[n]`` in rows 0, 1, ..."""

    tables: dict[str, pa.Table]


def read_table(session: SourceSession, instance: str) -> pa.Table:
    """All of a table, as a mapped task would read it."""
    described = describe(session, capture_instance=instance)
    planned = plan_columns(described.columns, {})
    assert (described.problems, planned.problems) == ((), ())
    schema = captured_schema([column.lake for column in planned.columns])
    statement = select_range(described.table, planned.columns, (), KeyRange())
    return pa.Table.from_batches(
        session.read(statement, schema, table=described.table.label), schema
    ).sort_by("id")


@pytest.fixture(scope="module")
def loaded(server: EmbeddedSqlServer) -> Loaded:
    declared = ", ".join(f"c{index} {declaration} NULL" for index, (declaration, _, _) in enumerate(COLUMNS))
    server.execute(f"CREATE TABLE dbo.everything (id int NOT NULL PRIMARY KEY, {declared}, rv rowversion)")
    longest = max(len(inserted) for _, inserted, _ in COLUMNS)
    names = ", ".join(f"c{index}" for index in range(len(COLUMNS)))
    rows = [
        (row, *(inserted[row] if row < len(inserted) else None for _, inserted, _ in COLUMNS))
        for row in range(longest)
    ]
    server.executemany(
        f"INSERT INTO dbo.everything (id, {names}) VALUES ({', '.join('?' * (len(COLUMNS) + 1))})", rows
    )
    server.enable_cdc("dbo.everything")
    tables = {}
    for driver in DRIVERS:
        with SourceSession(settings_for(server, driver)) as session:
            tables[driver] = read_table(session, "dbo_everything")
    return Loaded(tables)


@pytest.mark.parametrize("index", range(len(COLUMNS)), ids=[declaration for declaration, _, _ in COLUMNS])
def test_a_value_is_read_as_it_is_stored(loaded: Loaded, driver: str, index: int) -> None:
    expected = COLUMNS[index][2]
    found = loaded.tables[driver].column(f"c{index}").to_pylist()
    assert found[: len(expected)] == list(expected)
    assert set(found[len(expected) :]) <= {None}


def test_both_drivers_give_equal_tables(loaded: Loaded) -> None:
    first, second = loaded.tables.values()
    assert first.schema == second.schema
    assert [name for name in first.column_names if not first[name].equals(second[name])] == []


def test_a_rowversion_is_eight_bytes_that_rise(loaded: Loaded, driver: str) -> None:
    versions = loaded.tables[driver].column("rv").to_pylist()
    assert all(len(version) == 8 for version in versions)
    assert versions == sorted(versions)


@pytest.fixture(scope="module")
def long_values(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server in a separate process: mssql-python holds Python's lock while it waits for a large value."""
    inserts = "\n".join(
        f"INSERT INTO dbo.long VALUES ({length}, REPLICATE(CAST(N'日' AS nvarchar(max)), {length}), "
        f"REPLICATE(CAST('é' AS varchar(max)), {length}), "
        f"CAST(REPLICATE(CAST('ab' AS varchar(max)), {length // 2}) AS varbinary(max)));"
        for length in LONG
    )
    script = f"""
        CREATE TABLE dbo.long (id int NOT NULL PRIMARY KEY,
            n nvarchar(max), v varchar(max), b varbinary(max));
        INSERT INTO dbo.long VALUES (1, N'', '', 0x), (2, NULL, NULL, NULL);
        {inserts}
        EXEC sys.sp_cdc_enable_db;
        EXEC sys.sp_cdc_enable_table @source_schema = 'dbo', @source_name = 'long', @role_name = NULL;
    """
    with server_process(tmp_path_factory.mktemp("server"), script) as running:
        yield running


def test_long_values_come_whole_beside_short_ones(long_values: ServerProcess, driver: str) -> None:
    with SourceSession(long_values.settings(driver)) as session:
        table = read_table(session, "dbo_long")
    assert table["id"].to_pylist() == [1, 2, *LONG]
    short = table.slice(0, 2).drop(["id"]).to_pylist()
    assert short == [
        {"n": "", "v": "", "b": b""},
        {"n": None, "v": None, "b": None},
    ]
    for row, length in enumerate(LONG, start=2):
        assert table["n"][row].as_py() == "日" * length
        assert table["v"][row].as_py() == "é" * length
        assert table["b"][row].as_py() == b"ab" * (length // 2)
