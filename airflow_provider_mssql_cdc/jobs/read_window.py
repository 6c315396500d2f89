"""One window of one capture instance: its commits, its rows, staged, and a look back at the low watermark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from airflow_provider_mssql_cdc.errors import PermissionDenied
from airflow_provider_mssql_cdc.jobs.change_schema import agree_on_columns
from airflow_provider_mssql_cdc.jobs.changes_run import ChangesRun
from airflow_provider_mssql_cdc.jobs.gaps import refuse_gap
from airflow_provider_mssql_cdc.jobs.window_rows import WindowRows
from airflow_provider_mssql_cdc.lake.change_files import (
    COMMITS_SCHEMA,
    ChangeStamp,
    WindowCommits,
    change_schema,
    discard,
    stage_changes,
)
from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.source.watermarks import zone_of
from airflow_provider_mssql_cdc.tsql import changes
from airflow_provider_mssql_cdc.tsql.cdc import change_rows

MEGABYTE = 1_000_000
_NO_LIMIT = 2**31 - 1


class Sized(Protocol):
    """A batch of rows, as far as it is weighed here."""

    @property
    def nbytes(self) -> int: ...


Batch = TypeVar("Batch", bound=Sized)


@dataclass(slots=True)
class _Meter:
    """What passed through, and how long was waited for it."""

    seconds: float = 0.0
    read_bytes: int = 0
    _since: float = field(default=0.0, repr=False)

    def watched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        while True:
            since = time.monotonic()
            batch = next(batches, None)
            self.seconds += time.monotonic() - since
            if batch is None:
                return
            self.read_bytes += batch.nbytes
            yield batch


def read_window(
    run: ChangesRun, window: Window, instance: CaptureInstance, *, batch: int, limit: int | None, prefix: str
) -> WindowRows:
    """Read and stage the changes of a window, cut after ``limit`` commits; then see that none was purged.

    Bound, rows and the low watermark after them are answers of one session. Cleanup raises the low
    watermark before it deletes: what was there before and after the read was there all the time.

    :raises RetentionGap: cleanup has overtaken the read; nothing of it is kept.
    """
    columns = agree_on_columns(run, instance)
    commits = _commits(run, window, limit)
    last = commits.last
    if last is not None and limit is not None and len(commits) >= limit:
        window = Window(window.after, last.lsn)
    stamp, meter = ChangeStamp(instance.name, commits, batch), _Meter()
    statement = change_rows(
        instance.name,
        columns.columns,
        after=window.after,
        until=window.until,
        has_command_id=columns.has_command_id,
    )
    rows = run.session.read(
        statement, change_schema(columns.lake_columns), table=f"changes of {instance.name}"
    )
    files = stage_changes(run.bronze, prefix=prefix, stamp=stamp, batches=meter.watched(rows))
    try:
        refuse_gap(run, run.source.still_there(instance), position=window.after)
    except BaseException:
        discard(run.bronze, files)
        raise
    return WindowRows(
        window=window,
        instance=instance,
        files=files,
        counts=stamp.counts,
        until=last if last is not None and last.lsn == window.until else None,
        batch=batch,
        read_seconds=meter.seconds,
        read_mb=meter.read_bytes / MEGABYTE,
    )


def _commits(run: ChangesRun, window: Window, limit: int | None) -> WindowCommits:
    """The commits of a window in order, at most ``limit``; none where this login may not read them."""
    statement = changes.window_commits(window, limit=limit or _NO_LIMIT, zone=zone_of(run.session))
    try:
        return WindowCommits(run.session.read(statement, COMMITS_SCHEMA, table="cdc.lsn_time_mapping"))
    except PermissionDenied as exc:
        run.note(f"commit times stay NULL and the window is not cut: {exc}")
        return WindowCommits([])
