"""Reads a Delta table as a list of dicts, through delta-rs' query engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder


def delta_rows(
    uri: str | Path,
    where: str = "true",
    *,
    columns: str = "*",
    storage_options: dict[str, str] | None = None,
) -> list[dict[str, Any]]:
    """All rows of the current version that match ``where`` (SQL, lower-case names or quoted)."""
    table = DeltaTable(str(uri), storage_options=storage_options)
    result = QueryBuilder().register("t", table).execute(f"SELECT {columns} FROM t WHERE {where}")
    return pa.table(result.read_all()).to_pylist()
