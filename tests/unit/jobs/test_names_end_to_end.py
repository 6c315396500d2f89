"""Odd and hostile names of everything, from the source into Delta and back; each survives as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError, ForeignTable, PreflightFailed
from airflow_provider_mssql_cdc.planning.columns import source_name
from airflow_provider_mssql_cdc.source.settings import DriverName
from airflow_provider_mssql_cdc.tsql.statement import shown
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

DRIVERS: tuple[DriverName, ...] = ("mssql-python", "pymssql")
both_drivers = pytest.mark.parametrize("driver", DRIVERS)

NAMES = [
    "Acme GmbH & Co$Posted Sales Line$437dbf0e",
    "a.b.c",
    "x]y[z",
    "]",
    "it's",
    'say "hi"',
    "back`tick",
    "comma, semi; colon:",
    "{a}(b)=c",
    "select",
    "ORDER",
    "1st",
    "100%",
    "%s %(lo0)s ?",
    "{{ ds }} {% raw %}",
    "--",
    "/* x */",
    "a]; DROP TABLE dbo.victim; --",
    "'; DROP TABLE dbo.victim; --",
    "\\backslash\\",
    "tab\there",
    "line\nbreak",
    " leading",
    "Größe €",
    "данные",
    "日本",
    "🌺👩‍👩‍👧",
    "_x0020_",
    "a b" * 42,
    "é" * 128,
]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="Zürich_данные ]x' $1") as running:
        running.enable_cdc()
        running.execute("CREATE TABLE dbo.victim (id int NOT NULL PRIMARY KEY)")
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_a_name_may_stand_anywhere(server: EmbeddedSqlServer, tmp_path: Path, name: str) -> None:
    """As schema, table, key, column and capture instance at once."""
    number = NAMES.index(name)
    driver = DRIVERS[number % 2]
    quoted = shown(name)
    other = shown(f"{name[:120]}{'~' if name[-1:] != '~' else '!'}")
    instance = f"{name[:90]}_i"
    server.execute(f"CREATE SCHEMA {quoted}")
    server.execute(
        f"CREATE TABLE {quoted}.{quoted} ({quoted} int NOT NULL PRIMARY KEY, {other} nvarchar(40) NULL)"
    )
    server.executemany(
        f"INSERT INTO {quoted}.{quoted} VALUES (?, ?)", [(n * n, f"{name[:20]} {n}") for n in range(40)]
    )
    server.execute(
        "EXEC sys.sp_cdc_enable_table @source_schema = ?, @source_name = ?, @capture_instance = ?, "
        "@role_name = NULL",
        *(name, name, instance),
    )
    load = Load(server, tmp_path, instance=instance, driver=driver, source=(name, name), split_by=(name,))
    planned = load.plan(rows_per_range=10)
    assert len(planned) == 4
    assert load.complete([load.read(item) for item in planned]).rows == 40
    server.execute(f"UPDATE {quoted}.{quoted} SET {other} = N'changed' WHERE {quoted} = 4")
    assert load.changes().counts.updates == 1
    fields = DeltaTable(load.table.bronze).schema().fields
    captured = [field for field in fields if field.metadata.get("comment", "").startswith(quoted + " ")]
    assert [source_name(field.name) for field in captured] == [name]
    frame = pl.read_delta(load.table.bronze).filter(pl.col("_operation") == 0)
    assert sorted(frame[captured[0].name].to_list()) == [n * n for n in range(40)]
    assert not set(" ,;{}()=\n\t") & set("".join(field.name for field in fields))
    assert server.execute("SELECT COUNT(*) FROM dbo.victim") == [(0,)]


@both_drivers
def test_hostile_key_values_are_values(server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName) -> None:
    table = f"dbo.hostile_{DRIVERS.index(driver)}"
    server.execute(f"CREATE TABLE {table} (k nvarchar(60) COLLATE Latin1_General_BIN2 NOT NULL PRIMARY KEY)")
    values = sorted(
        {name[:60] for name in NAMES} | {"", "\0", "a\0b", "N'x'", "0x41", "NULL", "{{ 1/0 }}", "\\\n"}
    )
    server.executemany(f"INSERT INTO {table} VALUES (?)", [(value,) for value in values])
    server.enable_cdc(table)
    load = Load(server, tmp_path, instance=table.replace(".", "_"), driver=driver)
    planned = load.plan(rows_per_range=1, max_ranges=99)
    assert len(planned) == len(values)
    load.complete([load.read(item) for item in planned])
    assert sorted(row["k"] for row in delta_rows(load.table.bronze)) == values
    assert server.execute("SELECT COUNT(*) FROM dbo.victim") == [(0,)]


@both_drivers
def test_tables_of_one_name_in_two_schemas_are_two(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName
) -> None:
    name = f"twins{DRIVERS.index(driver)}"
    for schema in (f"a{name}", f"b{name}"):
        server.execute(f"CREATE SCHEMA {schema}")
        server.execute(f"CREATE TABLE {schema}.{name} (id int NOT NULL PRIMARY KEY)")
        server.execute(f"INSERT INTO {schema}.{name} VALUES ({1 if schema[0] == 'a' else 2})")
        server.enable_cdc(f"{schema}.{name}")
    first = Load(server, tmp_path, instance=f"a{name}_{name}", driver=driver)
    first.all()
    assert [row["id"] for row in delta_rows(first.table.bronze)] == [1]
    with pytest.raises(ForeignTable, match=f"a{name}"):
        Load(server, tmp_path, instance=f"b{name}_{name}", driver=driver).plan()


@both_drivers
@pytest.mark.parametrize("spelled", ["dbo_order_items", "DBO_ORDER_ITEMS", "dbo_ORDER_ITEMS"])
def test_an_instance_key_and_split_are_found_in_any_case(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, spelled: str
) -> None:
    if not server.execute("SELECT 1 FROM sys.tables WHERE name = 'ORDER_ITEMS'"):
        server.execute(
            "CREATE TABLE dbo.ORDER_ITEMS (OrderId int NOT NULL, [lineNo] int NOT NULL, "
            "PRIMARY KEY (OrderId, [lineNo]))"
        )
        server.execute("INSERT INTO dbo.ORDER_ITEMS VALUES (1, 1), (1, 2)")
        server.enable_cdc("dbo.ORDER_ITEMS")
    load = Load(
        server, tmp_path, instance=spelled, driver=driver, key=("ORDERID", "lineno"), split_by=("orderid",)
    )
    assert load.all(rows_per_range=1).rows == 2
    names = [field.name for field in DeltaTable(load.table.bronze).schema().fields]
    assert {"OrderId", "lineNo"} <= set(names)
    (facts,) = delta_rows(load.table.facts, "event = 'bootstrap'")
    assert facts["capture_instance"] == "dbo_ORDER_ITEMS"
    assert facts["source"].endswith("dbo.ORDER_ITEMS")


@both_drivers
@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("[_Start_LSN] int NULL", ["[_Start_LSN]", "must not have the name of a technical column"]),
        ("[_batch_id] int NULL, [_chunk] int NULL", ["[_batch_id]", "[_chunk]"]),
    ],
)
def test_a_column_with_a_name_of_bronze_is_refused(
    server: EmbeddedSqlServer, tmp_path: Path, driver: DriverName, columns: str, said: list[str]
) -> None:
    name = f"reserved{len(said)}{len(columns)}{DRIVERS.index(driver)}"
    server.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY, {columns})")
    server.enable_cdc(f"dbo.{name}")
    with pytest.raises(PreflightFailed) as caught:
        Load(server, tmp_path, instance=f"dbo_{name}", driver=driver).plan()
    assert [words for words in said if words not in str(caught.value)] == []


def test_names_that_differ_by_case_only(tmp_path: Path) -> None:
    """In a case-sensitive database: instances are told apart by spelling, columns are refused."""
    with EmbeddedSqlServer(database="strict", collation="Latin1_General_CS_AS") as server:
        for name, number in (("orders", 1), ("ORDERS", 2)):
            server.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY)")
            server.execute(f"INSERT INTO dbo.{name} VALUES ({number})")
            server.enable_cdc(f"dbo.{name}")
        for name, number in (("orders", 1), ("ORDERS", 2)):
            load = Load(server, tmp_path / name, instance=f"dbo_{name}")
            load.all()
            assert [row["id"] for row in delta_rows(load.table.bronze)] == [number]
        with pytest.raises(ConfigurationError, match="dbo_ORDERS and dbo_orders"):
            Load(server, tmp_path / "x", instance="dbo_Orders").plan()
        server.execute(
            "CREATE TABLE dbo.doubles (id int NOT NULL PRIMARY KEY, [Name] int NULL, [name] int NULL)"
        )
        server.enable_cdc("dbo.doubles")
        with pytest.raises(PreflightFailed, match=r"\[Name\] and \[name\] must differ by more than case"):
            Load(server, tmp_path / "y", instance="dbo_doubles").plan()
