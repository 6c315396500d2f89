"""Read changes: skip, wait, repair a window, or extend coverage window by window."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.jobs.change_source import (
    WINDOW_COMMITS,
    ChangesDone,
    ChangeSource,
    ChangesRequest,
    ChangesRun,
    WindowRows,
    mark_of,
    merged,
)
from airflow_provider_mssql_cdc.jobs.facts import write_change_facts, write_missing_facts, write_window_facts
from airflow_provider_mssql_cdc.jobs.first_answers import (
    ask_first,
    available_now,
    position_time,
    rests,
    stamp_at,
    stays,
)
from airflow_provider_mssql_cdc.jobs.guards import refuse_gap
from airflow_provider_mssql_cdc.jobs.read_window import read_window
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze, open_or_create
from airflow_provider_mssql_cdc.lake.changes import PositionMoved, StagedWindow, begin_coverage, commit_window
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.staged_files import change_prefix, discard, remove_dead_files
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import change_metadata
from airflow_provider_mssql_cdc.model.capture import (
    CaptureInstance,
    ChangeCounts,
    CommitStamp,
    InstanceMark,
    Window,
)
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.windows import (
    DataInterval,
    Extend,
    NothingToDo,
    Reading,
    Repair,
    choose_reading,
    decide_interval,
    readings_of,
)
from airflow_provider_mssql_cdc.source.watermarks import (
    commits_before,
    how_far,
)

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect


log = logging.getLogger(__name__)

_REPAIRS_LOST_AT_MOST = 20


def repair_changes(run: ChangesRun, window: Window) -> ChangesDone:
    """Replace the change rows of one window; snapshot rows and all other changes are not touched.

    :param window: must lie within coverage; the caller clips it.
    :raises RetentionGap: the server no longer has all of its changes; bronze is unchanged.
    """
    for _ in range(_REPAIRS_LOST_AT_MOST - 1):
        try:
            return _repair_once(run, window)
        except PositionMoved as exc:
            log.info("%s: %s", run.table.label, exc)
            run.bronze.reload()
    return _repair_once(run, window)


def _repair_once(run: ChangesRun, window: Window) -> ChangesDone:
    batch, position = run.state.batch + 1, run.position
    prefix = change_prefix("repair", batch, window)
    rows = _read(run, window, batch=batch, prefix=prefix)
    try:
        done = replace_changes(
            run.bronze,
            _staged(run, rows),
            identity=run.source.identity,
            prefix=prefix,
            position=position,
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
        version=run.bronze.version,
        committed=done.version is not None,
    )


def _read(run: ChangesRun, window: Window, *, batch: int, prefix: str) -> WindowRows:
    """Return the window's rows, from one capture instance or from two consecutive ones."""
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
    """Split the window by capture instance before the first read."""
    configured = run.source.available()
    others = () if configured.continues(window.after) else run.source.other_instances()
    try:
        return [
            (available.instance, piece) for available, piece in readings_of(window, configured, others=others)
        ]
    except LookupError as exc:
        raise RetentionGap(
            f"{run.table.label}: CDC cleanup has purged changes in {window} (the oldest retained is at "
            f"{configured.low}), so they cannot be read again. Bronze is unchanged and still holds what was "
            "read before"
        ) from exc


_LOST_AT_MOST = 20

Outcome = Skipped | Waiting | ChangesDone


def run_changes(request: ChangesRequest, *, connect: Connect, bronze: Bronze | None = None) -> Outcome:
    """Run one request for changes; all of the server's answers come from one session.

    :param bronze: a handle opened just before, which is moved along; None to open the table here.
    :raises RetentionGap: changes above the position, or in the interval, have been purged.
    :raises SchemaDrift: the source table changed in a way that needs the user's decision.
    :raises ReplicaBehind: another server answers that has not caught up yet.
    :raises StateDamaged: the database is not the one that bronze was read from.
    :raises ForeignTable: the table is not the one that bronze was read from.
    """
    location = TableLocation.bronze_of(request.table)
    bronze = bronze or open_bronze(location)
    if not request.start_now and (bronze is None or bronze.state.coverage is None):
        return Skipped(
            f"{request.table.label}: there is no snapshot in {location} to continue from. Run "
            'mssql_cdc_bootstrap first, or start without the existing rows: start="now"'
        )
    with connect() as session:
        source = ChangeSource(session, request.table)
        bronze = _ready(request, source, bronze)
        run = ChangesRun(request, session, source, bronze)
        run.first = ask_first(session, source.instance, bronze=bronze, label=request.table.label)
        write_missing_facts(run)
        if trouble := run.first.trouble:
            run.note(trouble.sentence, level=logging.WARNING if trouble.seen else logging.INFO)
        outcome = _act(run)
        if request.attempt.try_number > 1:
            remove_dead_files(run.bronze)
        return outcome


def _ready(request: ChangesRequest, source: ChangeSource, bronze: Bronze | None) -> Bronze:
    """Open bronze with coverage; start coverage at what capture has reached when there is none."""
    location = TableLocation.bronze_of(request.table)
    if bronze is None:
        columns = source.recorded(source.instance).lake_columns
        bronze = open_or_create(location, source.identity, columns)
    bronze.check_identity(source.identity)
    bronze.check_object(source.identity)
    if bronze.state.coverage is None:
        start = source.available().reached
        begin_coverage(
            bronze,
            start,
            identity=source.identity,
            stamp=stamp_at(source.session, start),
            run_id=request.attempt.run_id,
        )
        log.info("%s: changes begin at %s, without the existing rows", request.table.label, start)
    return bronze


def _act(run: ChangesRun) -> Outcome:
    interval = run.request.interval
    if not run.request.to_interval_end or interval is None:
        available = available_now(run)
        return extend_changes(run, available.captured or available.reached)
    return _by_interval(run, interval)


def _by_interval(run: ChangesRun, interval: DataInterval) -> Outcome:
    upper, passed = commits_before(run.session, interval.end)
    if passed is None:
        return Waiting(how_far(run.session), at=interval.end)
    # Capture has passed the interval's end, so later commits cannot get an earlier time.
    lower, _ = commits_before(run.session, interval.start)
    base = run.coverage.base
    kept = run.source.available().continues(base) or any(
        available.continues(base) for available in run.source.other_instances()
    )
    decision = decide_interval(run.coverage, interval, lower=lower, upper=upper, base_kept=kept)
    if isinstance(decision, Extend):
        return extend_changes(run, decision.until)
    if isinstance(decision, Repair):
        return repair_changes(run, decision.window)
    return _left(run, decision)


def _left(run: ChangesRun, decision: NothingToDo) -> Outcome:
    if decision.skipped:
        return Skipped(f"{run.table.label}: {decision.reason}")
    log.info("%s: %s; nothing to do", run.table.label, decision.reason)
    return ChangesDone(
        "repair", run.position, run.position, notes=(*run.notes, decision.reason), version=run.bronze.version
    )


def extend_changes(run: ChangesRun, bound: Lsn) -> ChangesDone:
    """Extend coverage up to ``bound``, or to the newest readable LSN, one commit per window.

    When another run extends the table concurrently, a conflicting window is dropped and this run continues
    from the new position.
    """
    first, counts, windows, lost = run.position, ChangeCounts(), 0, 0
    while not rests(run, bound) and (reading := _next_reading(run, bound)) is not None:
        try:
            rows = _extend_once(run, Window(run.position, reading.until), reading.available.instance)
        except PositionMoved as exc:
            lost += 1
            if lost >= _LOST_AT_MOST:
                raise
            log.info("%s: %s", run.table.label, exc)
            run.bronze.reload()
            continue
        if rows is None:
            break
        counts, windows = counts.plus(rows.counts), windows + 1
    log.info(
        "%s: changes from %s to %s: %d rows in %d commit(s)",
        *(run.table.label, first, run.position, counts.rows, windows),
    )
    return ChangesDone(
        event="changes",
        after=first,
        until=run.position,
        counts=counts,
        windows=windows,
        until_ts=position_time(run),
        notes=tuple(run.notes),
        version=run.bronze.version,
        committed=counts.rows > 0
        or run.bronze.earlier_try_committed(run.request.attempt, events=("changes", "repair")),
    )


def _next_reading(run: ChangesRun, bound: Lsn) -> Reading | None:
    """Return the instance and range to read next; None when there is nothing up to the bound.

    :raises RetentionGap: no capture instance retains the changes above the position.
    """
    configured, position = available_now(run), run.position
    others = () if configured.continues(position) else run.source.other_instances()
    reading = choose_reading(position, configured, others=others, bound=bound)
    if reading is None:
        refuse_gap(run, configured, position=position)
        raise AssertionError("unreachable: an instance that keeps the position continues from it")
    return reading if reading.until > position else None


def _extend_once(run: ChangesRun, window: Window, instance: CaptureInstance) -> WindowRows | None:
    """Read and commit one window; None when it has no rows and the position is not advanced."""
    before = run.state
    batch = before.batch + 1
    rows = _read_on(run, window, instance, batch=batch)
    # An empty window usually writes no commit: a table without changes would otherwise grow its log with
    # every run.
    if not rows.files and stays(run, _end_of(run, rows)):
        return None
    try:
        commit_window(
            run.bronze,
            _staged(run, rows),
            identity=run.source.identity,
            stamp=_end_of(run, rows),
            instance=mark_of(instance),
        )
    except PositionMoved:
        discard(run.bronze, rows.files)
        raise
    _record_switch(run, before.instance, instance, at=rows.window.after)
    write_window_facts(run, rows, event="changes")
    return rows


def _staged(run: ChangesRun, rows: WindowRows) -> StagedWindow:
    metadata = change_metadata(
        rows.window,
        instance=rows.instance.name,
        batch=rows.batch,
        rows=rows.counts.rows,
        run_id=run.request.attempt.run_id,
    )
    return StagedWindow(rows.window, rows.files, rows.batch, metadata)


def _read_on(run: ChangesRun, window: Window, instance: CaptureInstance, *, batch: int) -> WindowRows:
    """Read a window, limited to ``max_commits`` unless those commits would not advance the position.

    Commits of other tables count too: a position that does not advance would read the same ones forever.
    """
    limit = run.request.max_commits or WINDOW_COMMITS
    prefix = change_prefix("changes", batch, window)
    rows = read_window(run, window, instance, batch=batch, limit=limit, prefix=prefix)
    while not rows.files and rows.window.until < window.until and stays(run, _end_of(run, rows)):
        rest = Window(rows.window.until, window.until)
        rows = merged(rows, read_window(run, rest, instance, batch=batch, limit=limit, prefix=prefix))
    return rows


def _end_of(run: ChangesRun, rows: WindowRows) -> CommitStamp | None:
    return rows.until or stamp_at(run.session, rows.window.until)


def _record_switch(run: ChangesRun, before: InstanceMark | None, now: CaptureInstance, *, at: Lsn) -> None:
    if before is None or before == mark_of(now):
        return
    log.info("%s: changes above %s are read from capture instance %s", run.table.label, at, now.name)
    row = FactsRow(
        event="capture_instance_switched",
        target=run.bronze.location.uri,
        capture_instance=now.name,
        min_lsn=at,
        detail={"change_table": now.change_table_id, "made": now.create_date.isoformat()},
    )
    write_change_facts(run, row, identifier=facts_identifier(row.target, "capture_instance_switched", at))
