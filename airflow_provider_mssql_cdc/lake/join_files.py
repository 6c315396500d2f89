"""Write the rows of small files into larger ones: no row changes, and the log says so (dataChange false).

delta-rs' own OPTIMIZE does the same with lossy statistics (ADR 2), and its commit may pass although the files
it takes out were taken out before (ADR 8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.delta_table import (
    LakeTable,
    StoredFile,
    remove_actions,
    stored_files,
    until_committed,
)
from airflow_provider_mssql_cdc.lake.schema import plain_schema, refuse_deletion_vectors
from airflow_provider_mssql_cdc.lake.staged_files import discarding_on_failure, rewrite_prefix
from airflow_provider_mssql_cdc.lake.staging import WholeRows, stage
from airflow_provider_mssql_cdc.lake.storage import TableStorage, file_batches
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.planning.upkeep import groups_to_join
from airflow_provider_mssql_cdc.task_memory import share_of

log = logging.getLogger(__name__)

COMPACT_EVENT = "compact"
SORTED_BYTES = 64 << 20
"""Arrow bytes that are sorted at once; larger files consist of several sorted runs."""

_TIMES_LOST = 3

Sort = Callable[[pa.Table], pa.Array]
"""Return the row indices in the order in which a table's rows are stored."""


class FilesTaken(Exception):
    """Another commit has taken out files that were written again meanwhile; nothing was committed."""


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """What :func:`join_files` did to one table.

    :param removed: files that were written again.
    :param added: files with their rows.
    :param files: files of the table afterwards.
    """

    removed: int = 0
    added: int = 0
    removed_bytes: int = 0
    added_bytes: int = 0
    rows: int = 0
    files: int = 0

    def and_(self, removed: Sequence[StoredFile], staged: Sequence[StagedFile]) -> JoinedFiles:
        return JoinedFiles(
            self.removed + len(removed),
            self.added + len(staged),
            self.removed_bytes + sum(file.size for file in removed),
            self.added_bytes + sum(file.size for file in staged),
            self.rows + sum(file.rows for file in staged),
        )


def join_files(
    table: LakeTable,
    candidates: Callable[[], Sequence[StoredFile]],
    *,
    sort: Sort,
    target_bytes: int,
    user_metadata: Mapping[str, Any],
    check: Callable[[], None] = lambda: None,
) -> JoinedFiles:
    """Write groups of adjacent small files again as one each; one commit per group.

    Rows are read in the order of their files and sorted piece by piece in bounded memory. Commits of others
    are no hindrance unless they take out the same files; then the groups are chosen anew.

    :param candidates: returns the files of the handle's version, in the order of their rows.
    :param check: called before each commit; raises when the table must not be written.
    """
    refuse_deletion_vectors(table.table)
    done, lost = JoinedFiles(), 0
    while True:
        files = candidates()
        sizes = [file.size for file in files]
        groups = [[files[index] for index in group] for group in groups_to_join(sizes, target=target_bytes)]
        try:
            for group in groups:
                staged = _write_again(
                    table, group, sort=sort, target_bytes=target_bytes, told=user_metadata, check=check
                )
                done = done.and_(group, staged)
        except FilesTaken as exc:
            lost += 1
            log.info("%s: %s", table.location, exc)
            if lost < _TIMES_LOST:
                table.reload()
                continue
        break
    table.reload()
    count = len(stored_files(table.table))
    return JoinedFiles(done.removed, done.added, done.removed_bytes, done.added_bytes, done.rows, count)


def _write_again(
    table: LakeTable,
    files: Sequence[StoredFile],
    *,
    sort: Sort,
    target_bytes: int,
    told: Mapping[str, Any],
    check: Callable[[], None],
) -> tuple[StagedFile, ...]:
    schema = plain_schema(pa.schema(table.table.schema()))
    prefix = rewrite_prefix(COMPACT_EVENT, table.version)
    rows = sorted_runs(_rows(table, files, schema), sort)
    staged = stage(table.location, WholeRows(schema), rows, prefix=prefix, target_bytes=target_bytes)
    with discarding_on_failure(table, staged):
        check_rows(files, staged, where=str(table.location))
        replace_files(table, files, staged, event=COMPACT_EVENT, data_change=False, told=told, check=check)
    return staged


def _rows(table: LakeTable, files: Sequence[StoredFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    storage = TableStorage(table.location)
    for file in files:
        yield from file_batches(storage, file.path, schema)


def sorted_runs(
    batches: Iterator[pa.RecordBatch], sort: Sort, *, most_bytes: int = SORTED_BYTES
) -> Iterator[pa.RecordBatch]:
    """Collect batches up to a size, and yield the rows of each such piece in order."""
    collected: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        collected.append(batch)
        size += batch.nbytes
        if size >= share_of(most_bytes):
            yield from _sorted(collected, sort)
            collected, size = [], 0
    if collected:
        yield from _sorted(collected, sort)


def _sorted(batches: list[pa.RecordBatch], sort: Sort) -> list[pa.RecordBatch]:
    rows = pa.Table.from_batches(batches)
    batches_in_order: list[pa.RecordBatch] = rows.take(sort(rows)).combine_chunks().to_batches()
    return batches_in_order


def check_rows(files: Sequence[StoredFile], staged: Sequence[StagedFile], *, where: str) -> None:
    """:raises RuntimeError: the new files do not have as many rows as the old ones."""
    before, after = sum(file.rows for file in files), sum(file.rows for file in staged)
    if before != after:
        raise RuntimeError(f"{where}: {before:,} rows were read and {after:,} written; nothing is committed")


def replace_files(
    table: LakeTable,
    removed: Sequence[StoredFile],
    staged: Sequence[StagedFile],
    *,
    event: str,
    data_change: bool,
    told: Mapping[str, Any],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Commit on the newest version in which all of these files are still in the table. Reloads the handle.

    :param check: called before each try; raises when the table must not be written.
    :raises FilesTaken: another commit has taken out one of them.
    """

    def once() -> None:
        check()
        there = {file.logged for file in stored_files(table.table)}
        if gone := [file.logged for file in removed if file.logged not in there]:
            raise FilesTaken(f"{len(gone)} file(s) were taken out by another commit, {gone[0]} among them")
        table.commit_files(
            [
                *remove_actions(removed, data_change=data_change),
                *actions_just_staged(table, staged, data_change=data_change),
            ],
            event=event,
            transactions=(),
            user_metadata=told,
            overtaken=False,
        )

    until_committed(once, what=f"{event} of {table.location}", reload=table.reload)
    table.reload()
