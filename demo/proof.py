"""What the source holds and what silver holds, to be compared row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

Row = dict[str, Any]


def query(uri: str, sql: str) -> list[Row]:
    """Rows of a Delta table, named ``t`` in the query."""
    result = QueryBuilder().register("t", DeltaTable(uri)).execute(sql)
    rows: list[Row] = pa.table(result.read_all()).to_pylist()
    return rows


def silver(uri: str, *, key: str) -> dict[Any, Row]:
    """Silver's rows by key, the captured columns alone; a key that is there twice is an error."""
    columns = [name for name in pa.schema(DeltaTable(uri).schema()).names if not name.startswith("_")]
    rows = query(uri, f"SELECT {', '.join(columns)} FROM t")
    by_key = {row[key]: row for row in rows}
    if len(by_key) != len(rows):
        raise SystemExit(f"{uri}: {len(rows)} rows for {len(by_key)} keys")
    return by_key


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
