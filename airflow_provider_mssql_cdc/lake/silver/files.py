"""Silver's files: which of them can hold given keys, what is in them, and how new ones come about."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake.transaction import RemoveAction

from airflow_provider_mssql_cdc.lake.constants import read_all
from airflow_provider_mssql_cdc.lake.parquet_files import TableWriter
from airflow_provider_mssql_cdc.lake.parquet_reads import file_batches
from airflow_provider_mssql_cdc.lake.silver.keys import KeySet
from airflow_provider_mssql_cdc.lake.silver.overlay import Overlay
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.staging import write_batches
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.staged import StagedFile

TARGET_BYTES = 32 << 20
"""Smaller than bronze's: a merge writes whole files again."""


@dataclass(frozen=True, slots=True)
class SilverFile:
    """A file of the version looked at.

    :param logged: its path as the log has it.
    :param bounds: smallest and largest value of key columns, where the log tells them.
    """

    logged: str
    rows: int
    bounds: dict[str, tuple[Any, Any]]

    @property
    def path(self) -> str:
        return unquote(self.logged)


def current_files(silver: Silver) -> list[SilverFile]:
    """All files of the handle's version."""
    actions = read_all(silver.table.get_add_actions(flatten=True)).to_pylist()
    return [
        SilverFile(action["path"], action["num_records"] or 0, _bounds(action, silver.key))
        for action in actions
    ]


def _bounds(action: dict[str, Any], key: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    told = {name: (action.get(f"min.{name}"), action.get(f"max.{name}")) for name in key}
    return {name: bounds for name, bounds in told.items() if None not in bounds}


def outdated_files(silver: Silver, overlay: Overlay) -> list[SilverFile]:
    """Files that hold a row which gives way to an image, in the order of their first key column.

    By the log's statistics, then by those of the file's row groups, then by the key columns of what is left,
    up to the first such row.
    """
    storage, keys = TableStorage(silver.location), overlay.keys
    compared = pa.schema([silver.schema.field(name) for name in (*keys.names, "_start_lsn")])
    outdated = []
    for file in current_files(silver):
        if keys.may_be_within(file.bounds):
            batches = file_batches(storage, file.path, compared, wanted=keys.may_be_within)
            if any(overlay.is_outdated(batch) for batch in batches):
                outdated.append(file)
    return _in_key_order(outdated, keys)


def _in_key_order(files: list[SilverFile], keys: KeySet) -> list[SilverFile]:
    first = keys.names[0]
    known = [file for file in files if first in file.bounds]
    others = [file for file in files if first not in file.bounds]
    return [*sorted(known, key=lambda file: file.bounds[first][0]), *others]


def stage(silver: Silver, prefix: str, rows: Iterable[pa.RecordBatch]) -> tuple[StagedFile, ...]:
    """Write rows to files ``<prefix>-0.parquet`` and so on that nobody sees yet; no rows, no file."""
    writer = TableWriter(
        TableStorage(silver.location), prefix=prefix, schema=silver.schema, target_bytes=TARGET_BYTES
    )
    return write_batches(writer, rows)


def remove_actions(files: Iterable[SilverFile]) -> list[RemoveAction]:
    now = int(time.time() * 1000)
    return [RemoveAction(file.logged, True, now) for file in files]


def discard(silver: Silver, files: Sequence[StagedFile]) -> None:
    """Remove files that this process staged and that lost."""
    storage = TableStorage(silver.location)
    for file in files:
        storage.discard(file.path)
