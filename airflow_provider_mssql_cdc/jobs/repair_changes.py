"""Repair an interval that has been read: its changes are read again and replace those in bronze."""

from __future__ import annotations

import logging

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.jobs.change_facts import write_window_facts
from airflow_provider_mssql_cdc.jobs.changes_run import ChangesDone, ChangesRun
from airflow_provider_mssql_cdc.jobs.read_window import read_window
from airflow_provider_mssql_cdc.jobs.window_rows import WindowRows, merged
from airflow_provider_mssql_cdc.lake.change_files import discard
from airflow_provider_mssql_cdc.lake.change_names import file_prefix
from airflow_provider_mssql_cdc.lake.changes import PositionMoved
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.stored_changes import change_metadata
from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import Window
from airflow_provider_mssql_cdc.planning.windows import readings_of

log = logging.getLogger(__name__)

_LOST_AT_MOST = 20


def repair_changes(run: ChangesRun, window: Window) -> ChangesDone:
    """Replace exactly the changes of a window; rows of snapshots and all other changes stay as they are.

    :param window: clipped to coverage by the caller.
    :raises RetentionGap: the server no longer has all of them; bronze is left as it is.
    """
    for _ in range(_LOST_AT_MOST - 1):
        try:
            return _repair_once(run, window)
        except PositionMoved as exc:
            log.info("%s: %s", run.table.label, exc)
            run.bronze.reload()
    return _repair_once(run, window)


def _repair_once(run: ChangesRun, window: Window) -> ChangesDone:
    batch, position = run.state.batch + 1, run.position
    prefix = file_prefix("repair", batch, window)
    rows = _read(run, window, batch=batch, prefix=prefix)
    try:
        done = replace_changes(
            run.bronze,
            window,
            rows.files,
            prefix=prefix,
            batch=batch,
            position=position,
            user_metadata=change_metadata(
                window, instance=rows.instance.name, batch=batch, run_id=run.request.attempt.run_id
            ),
        )
    except PositionMoved:
        discard(run.bronze, rows.files)
        raise
    if done.version is not None:
        write_window_facts(run, rows, event="repair", replaced=done.replaced)
    log.info(
        "%s: changes in %s read again: %d rows in place of %d",
        *(run.table.label, window, rows.counts.rows, done.replaced),
    )
    return ChangesDone(
        event="repair",
        after=window.after,
        until=window.until,
        counts=rows.counts,
        windows=0 if done.version is None else 1,
        until_ts=rows.until.time if rows.until else None,
        notes=tuple(run.notes),
    )


def _read(run: ChangesRun, window: Window, *, batch: int, prefix: str) -> WindowRows:
    """The window's rows, by one instance or by two that follow each other."""
    read: WindowRows | None = None
    try:
        for number, (instance, piece) in enumerate(_pieces(run, window)):
            rows = read_window(run, piece, instance, batch=batch, limit=None, prefix=f"{prefix}-{number}")
            read = rows if read is None else merged(read, rows)
    except BaseException:
        if read is not None:
            discard(run.bronze, read.files)
        raise
    assert read is not None
    return read


def _pieces(run: ChangesRun, window: Window) -> list[tuple[CaptureInstance, Window]]:
    """All of them, before the first is read."""
    configured = run.source.reach()
    others = () if configured.keeps(window.after) else run.source.bridges()
    try:
        return [(reach.instance, piece) for reach, piece in readings_of(window, configured, others=others)]
    except LookupError as exc:
        raise RetentionGap(
            f"{run.table.label}: the changes in {window} have been purged, in part at least (the lowest one "
            f"that is kept is at {configured.low}), and cannot be read again. Bronze is left as it is, it "
            "still holds what was read then"
        ) from exc
