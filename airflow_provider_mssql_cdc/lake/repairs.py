"""A repair: replace the change rows of one window in one commit; nothing else changes.

A file that contains only such rows is removed. From a file with other rows too, the others are written to a
new file with exact statistics, and the file is removed. delta-rs' own replaceWhere would write lossy
statistics instead (decimals become floats), and its conflict check accepts a commit that removes a file
although an OPTIMIZE has moved the file's rows in the meantime (tried, 1.6.6). So a repair is committed only
on the version it was computed from, or computed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from deltalake.transaction import RemoveAction

from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import StagedWindow, repair_transactions
from airflow_provider_mssql_cdc.lake.delta_table import (
    StoredFile,
    remove_actions,
    stored_files,
    until_committed,
)
from airflow_provider_mssql_cdc.lake.schema import (
    plain_schema,
    refuse_append_only,
    refuse_deletion_vectors,
)
from airflow_provider_mssql_cdc.lake.staged_files import discarding_on_failure
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableStorage, may_hold_changes, parquet_file, shaped
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.state import SourceIdentity

_BATCH_ROWS = 65_536
_FIRST_CHANGE = 1


@dataclass(frozen=True, slots=True)
class RepairCommit:
    """Result of a repair.

    :param version: the new version; None when bronze and the server agreed that there is no change.
    :param replaced: change rows of the window that were removed.
    :param carried: other rows that were rewritten because they shared a file with such rows.
    """

    version: int | None
    replaced: int
    carried: int


@dataclass(slots=True)
class _Taken:
    removes: list[RemoveAction]
    carried: tuple[StagedFile, ...]
    rows: int


def replace_changes(
    bronze: Bronze, staged: StagedWindow, *, identity: SourceIdentity, prefix: str, position: Lsn
) -> RepairCommit:
    """Replace the rows of ``_operation`` 1 to 4 with a commit LSN in the window by the staged rows.

    Reloads the handle before each retry and at the end.

    :param prefix: name prefix of files for the carried rows.
    :param position: coverage's upper end when the window was read; it may have grown since.
    :raises PositionMoved: the position is lower now, or another run used ``batch``.
    :raises ForeignTable: bronze holds rows of another table of this name.
    """
    refuse_deletion_vectors(bronze.table)
    refuse_append_only(bronze.table)

    window, files, batch = staged.window, staged.files, staged.batch

    def once() -> RepairCommit:
        bronze.check_object(identity)
        taken = _take_out(bronze, window, prefix)
        if not taken.removes and not files:
            return RepairCommit(None, 0, 0)
        with discarding_on_failure(bronze, taken.carried):
            transactions = repair_transactions(bronze, batch=batch, position=position)
            adds = actions_just_staged(bronze, [*files, *taken.carried])
            version = bronze.commit(
                [*taken.removes, *adds],
                transactions=transactions,
                event="repair",
                user_metadata=staged.user_metadata,
                overtaken=False,
            )
        return RepairCommit(version, taken.rows, sum(file.rows for file in taken.carried))

    try:
        return until_committed(once, what=f"repair {window} in {bronze.location}", reload=bronze.reload)
    finally:
        bronze.reload()


def _take_out(bronze: Bronze, window: Window, prefix: str) -> _Taken:
    """Return the files to remove so that the window has no change, and stage their other rows."""
    storage, schema = TableStorage(bronze.location), plain_schema(bronze.schema)
    taken: list[StoredFile] = []
    mixed: list[str] = []
    rows = 0
    for file in stored_files(bronze.table, ("_start_lsn", "_operation")):
        if not may_hold_changes(file.bounds, above=window.after, until=window.until):
            continue
        held = file.records if _holds_nothing_else(file, window) else _count(storage, file.path, window)
        records = storage.footer(file.path).num_rows if file.records is None else file.records
        if held:
            taken.append(file)
            rows += held
            if held < records:
                mixed.append(file.path)
    others = _others(storage, mixed, window=window, schema=schema)
    carried = stage(bronze.location, WholeRows(schema), others, prefix=f"{prefix}-v{bronze.version}")
    return _Taken(remove_actions(taken), carried, rows)


def _holds_nothing_else(file: StoredFile, window: Window) -> bool:
    """Return whether, by its statistics, every row of a file is a change in the window."""
    if file.records is None or not {"_start_lsn", "_operation"} <= file.bounds.keys():
        return False
    (low, high), (first, _) = file.bounds["_start_lsn"], file.bounds["_operation"]
    return bool(low > window.after.text and high <= window.until.text and first >= _FIRST_CHANGE)


def _count(storage: TableStorage, path: str, window: Window) -> int:
    with storage.open(path) as file:
        batches = parquet_file(file).iter_batches(_BATCH_ROWS, columns=["_start_lsn", "_operation"])
        return sum(int(pc.sum(_in_window(batch, window)).as_py() or 0) for batch in batches)


def _others(
    storage: TableStorage, paths: Sequence[str], *, window: Window, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Return the rows of these files that the repair keeps, with all of bronze's columns."""
    for path in paths:
        with storage.open(path) as file:
            for batch in parquet_file(file).iter_batches(_BATCH_ROWS):
                kept = batch.filter(pc.invert(_in_window(batch, window)))
                if kept.num_rows:
                    yield shaped(kept, schema)


def _in_window(batch: pa.RecordBatch, window: Window) -> pa.Array:
    lsns, operations = batch.column("_start_lsn").cast(pa.string()), batch.column("_operation")
    after = pc.greater(lsns, window.after.text)
    until = pc.less_equal(lsns, window.until.text)
    changes = pc.greater_equal(operations, _FIRST_CHANGE)
    return pc.fill_null(pc.and_(pc.and_(after, until), changes), False)
