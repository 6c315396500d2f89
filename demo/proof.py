"""Compares the source with what bronze and the change table say it is, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

Row = dict[str, Any]

_ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")


def query(uri: str, sql: str) -> list[Row]:
    """Rows of a Delta table, named ``t`` in the query."""
    result = QueryBuilder().register("t", DeltaTable(uri)).execute(sql)
    rows: list[Row] = pa.table(result.read_all()).to_pylist()
    return rows


def rebuilt(
    server: EmbeddedSqlServer, bronze: str, *, instance: str, key: str, snapshot: str
) -> dict[Any, Row]:
    """The latest row of each key among the snapshot and the changes above it, deletes left out."""
    latest: dict[Any, Row] = {}
    columns = [
        field.name for field in pa.schema(DeltaTable(bronze).schema()) if not field.name.startswith("_")
    ]
    for row in (*query(bronze, "SELECT * FROM t"), *_changes(server, instance, columns, above=snapshot)):
        known = latest.get(row[key])
        if known is None or _position(row) > _position(known):
            latest[row[key]] = row
    return {
        value: {name: row[name] for name in columns}
        for value, row in latest.items()
        if row["_operation"] not in (1, 3)
    }


def source(server: EmbeddedSqlServer, table: str, *, key: str) -> dict[Any, Row]:
    """The source table as it is now."""
    names = [
        row[0] for row in server.execute("SELECT name FROM sys.columns WHERE object_id = OBJECT_ID(?)", table)
    ]
    rows = (
        dict(zip(names, row, strict=True))
        for row in server.execute(f"SELECT {', '.join(names)} FROM {table}")
    )
    return {row[key]: row for row in rows}


def _changes(server: EmbeddedSqlServer, instance: str, columns: list[str], *, above: str) -> Iterator[Row]:
    rows = server.execute(
        "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id], "
        f"CONVERT(varchar(22), [__$seqval], 1), [__$operation], {', '.join(columns)} FROM cdc.{instance}_CT "
        "WHERE [__$start_lsn] > CONVERT(binary(10), ?, 1)",
        above,
    )
    return (dict(zip((*_ORDER, *columns), row, strict=True)) for row in rows)


def _position(row: Row) -> tuple[tuple[bool, Any], ...]:
    return tuple((row[name] is not None, row[name] if row[name] is not None else 0) for name in _ORDER)
