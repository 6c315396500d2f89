"""``read``: query now() on the reading session, read and stage the rows of one range, then the horizon."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    CountsDiffer,
    PermissionDenied,
    ReplicaBehind,
    ValueDoesNotFit,
)
from airflow_provider_mssql_cdc.jobs.guards import refuse_unretained
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, decide_columns, loadable_table
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.staging import stage_range
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt, PlannedRange, StagedFile, StagedRange
from airflow_provider_mssql_cdc.planning.coverage import refuse_object_of_plan
from airflow_provider_mssql_cdc.source.measure import count_rows
from airflow_provider_mssql_cdc.source.watermarks import Standing, horizon, standing
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql.cdc import any_change
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from airflow_provider_mssql_cdc.tsql.statement import shown

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession


log = logging.getLogger(__name__)

MEGABYTE = 1_000_000
LINE_SECONDS = 30.0


class Sized(Protocol):
    """A batch of rows with its size."""

    @property
    def nbytes(self) -> int: ...
    @property
    def num_rows(self) -> int: ...


Batch = TypeVar("Batch", bound=Sized)


@dataclass(slots=True)
class ReadMeter:
    """Count rows and bytes of a read, across several iterators; logs progress every 30 seconds.

    Progress is logged when a batch arrives: a server that sends nothing produces no log line.

    :param label: name of the rows in the log; must not contain key values.
    :param expected: planned number of rows; None when unknown.
    :param clock: monotonic, in seconds.
    :ivar seconds: time spent waiting for batches, without their processing.
    """

    label: str
    expected: int | None = None
    clock: Callable[[], float] = time.monotonic
    rows: int = 0
    read_bytes: int = 0
    seconds: float = 0.0
    _began: float = field(init=False, repr=False)
    _logged: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._began = self._logged = self.clock()

    @property
    def megabytes(self) -> float:
        return self.read_bytes / MEGABYTE

    def watched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the batches unchanged and measure them."""
        while True:
            since = self.clock()
            batch = next(batches, None)
            now = self.clock()
            self.seconds += now - since
            if batch is None:
                return
            self.rows += batch.num_rows
            self.read_bytes += batch.nbytes
            self._log(now)
            yield batch

    def _log(self, now: float) -> None:
        if now - self._logged < LINE_SECONDS:
            return
        self._logged = now
        # The estimate comes from metadata and may be too low: a share above 100 % would be meaningless.
        known = self.expected is not None and self.rows <= self.expected
        share = f", {self.rows / self.expected:.0%} of it" if known and self.expected else ""
        log.info(
            "%s: %s rows read so far%s, %s rows/s",
            *(self.label, f"{self.rows:,}", share, f"{self.rows / (now - self._began):,.0f}"),
        )


@contextlib.contextmanager
def rows_of_range(
    session: SourceSession, source: LoadableTable, key_range: KeyRange, *, label: str
) -> Iterator[Iterator[Any]]:
    """Yield record batches of the captured columns; a caller that needs a stamp queries it before.

    Under SNAPSHOT the body of the ``with`` block is one transaction.

    :param label: name of the rows in messages.
    :raises ValueDoesNotFit: names the table, the range and the column.
    """
    statement = select_range(
        source.description.table, source.columns, split_by=source.split_columns, key_range=key_range
    )
    with session.transaction():
        batches = session.read(statement, captured_schema(source.lake_columns), table=label)
        yield _with_casts_named(batches, source)


def _with_casts_named(batches: Iterator[Batch], source: LoadableTable) -> Iterator[Batch]:
    """Add the cast columns to the error: the server does not say in which column a cast failed."""
    try:
        yield from batches
    except ValueDoesNotFit as exc:
        if exc.column is not None or not source.casts:
            raise
        casts = ", ".join(f"{shown(name)} as {declared}" for name, declared in source.casts.items())
        raise ValueDoesNotFit(f"{exc}. Columns that casts convert: {casts}") from exc


def verify_count(
    session: SourceSession,
    source: LoadableTable,
    *,
    key_range: KeyRange,
    rows: int,
    since: Lsn,
    label: str,
) -> None:
    """Count the range again and compare.

    Under SNAPSHOT, in the transaction that read the rows, the counts must match. Under READ COMMITTED they
    must match when CDC has recorded no change of the table since ``since``; otherwise a difference is logged
    and ignored. A change that capture has not processed yet looks like a fault, so the error is retryable.

    :param since: LSN that capture had reached before the read.
    :raises CountsDiffer: the counts differ and no recorded change explains it.
    """
    counted = count_rows(session, source.description.table, source.split_columns, key_range)
    if counted == rows:
        log.info("%s: the server counts the same %d rows", label, rows)
        return
    if session.isolation is None and _has_changed(session, source, since=since):
        log.warning(
            "%s: %d rows were read and %d are counted now; the table changed during the read, so the "
            "counts are not comparable. Changes will apply the difference",
            *(label, rows, counted),
        )
        return
    raise CountsDiffer(
        f"{label}: {rows:,} rows were read and the server counts {counted:,}, though CDC shows no change of "
        "the table since. Nothing of this range is committed. A commit that capture has not processed yet "
        'looks like this too: on a table that is written to, read under isolation="snapshot" or omit '
        "verify_counts"
    )


def _has_changed(session: SourceSession, source: LoadableTable, *, since: Lsn) -> bool:
    instance = source.description.instance
    try:
        found = session.value(any_change(instance.name, after=since), doing="looking for changes")
    except PermissionDenied:
        return False
    return bool(found)


def read_range(
    table: MssqlCdcTable,
    planned: PlannedRange,
    *,
    attempt: Attempt,
    connect: Connect,
    verify_counts: bool = False,
) -> StagedRange:
    """Read and stage one key range; does nothing when bronze holds this snapshot or a later one.

    :param verify_counts: count the range on the server after the read, and compare.
    :raises CountsDiffer: the counts differ and no change explains it.
    :raises ValueDoesNotFit: names the table, the range and the column; nothing of the range is staged.
    :raises ReplicaBehind: the server that answers has not reached S.
    :raises RetentionGap: changes after S have been purged, so this snapshot cannot be continued.
    """
    bronze = open_existing(TableLocation.bronze_of(table))
    if planned.done or _is_settled(bronze, planned):
        log.info("%s: bronze holds snapshot %s; range not read", table.label, bronze.state.snapshot)
        return StagedRange.nothing(planned)
    started = time.monotonic()
    with connect() as session:
        source = loadable_table(session, table, snapshot=planned.snapshot)
        bronze.check_identity(source.identity)
        if not planned.resnapshot:
            bronze.check_object(source.identity)
        refuse_object_of_plan([planned.source_object], source.identity)
        bronze.check_columns(source.lake_columns)
        decide_columns(bronze, source)
        found = _check_stamp(session, source, planned=planned, table=table)
        files = _stage(
            session,
            source,
            bronze=bronze,
            planned=planned,
            attempt=attempt,
            committed_at=found.committed_at,
            verify_since=found.reached if verify_counts else None,
        )
        # After the last row, on the same session: rows may be as new as the end of the read.
        after = horizon(session, source.description.instance)
    rows = sum(file.rows for file in files)
    log.info(
        "%s: range %d of %d: %d rows in %d file(s), %.1f s by %s, stamp %s",
        *(table.label, planned.index + 1, planned.count, rows, len(files)),
        *(time.monotonic() - started, session.driver, planned.snapshot),
    )
    return StagedRange(
        plan=planned.plan,
        index=planned.index,
        count=planned.count,
        rows=rows,
        files=files,
        horizon=after,
        resnapshot=planned.resnapshot,
        source_object=source.identity.object_id,
    )


def _is_settled(bronze: Bronze, planned: PlannedRange) -> bool:
    """Return whether bronze already holds a snapshot that makes this range obsolete."""
    stored = bronze.state.snapshot
    return stored is not None and (stored >= planned.snapshot or not planned.resnapshot)


def _check_stamp(
    session: SourceSession, source: LoadableTable, *, planned: PlannedRange, table: MssqlCdcTable
) -> Standing:
    """Check on the reading session that the server has passed S and still retains the changes after it.

    Returns the watermarks it queried.
    """
    if planned.split != source.split_hash and not planned.key_range.is_whole_table:
        raise ConfigurationError(
            f"{table.label}: this plan was cut on other columns than the table is cut on now "
            f"({', '.join(column.name for column in source.split_columns)}); clear the plan task"
        )
    found = standing(session, source.description.instance, planned.snapshot)
    # Behind a listener each connection may reach another replica, so the session that reads must ask itself.
    if found.reached < planned.snapshot:
        raise ReplicaBehind(
            f"{table.label}: the server that answers is at {found.reached}, behind the snapshot's LSN "
            f"{planned.snapshot}; another replica answered when it was planned. Trying again may reach one "
            "that has caught up"
        )
    refuse_unretained(found.low, position=planned.snapshot, label=table.label)
    return found


def _stage(
    session: SourceSession,
    source: LoadableTable,
    *,
    bronze: Bronze,
    planned: PlannedRange,
    attempt: Attempt,
    committed_at: datetime | None,
    verify_since: Lsn | None,
) -> tuple[StagedFile, ...]:
    """Read and stage the range; recount it on request, under SNAPSHOT in the same transaction."""
    label = f"{source.description.table.label}, range {planned.index + 1} of {planned.count}"
    with rows_of_range(session, source, planned.key_range, label=label) as batches:
        # The count must run in the same transaction: outside of it SNAPSHOT would see later commits.
        files = stage_range(
            bronze,
            source.header(planned.snapshot, committed_at, attempt=attempt),
            planned,
            ReadMeter(label).watched(batches),
            attempt=attempt.label,
        )
        if verify_since is not None:
            verify_count(
                session,
                source,
                key_range=planned.key_range,
                rows=sum(file.rows for file in files),
                since=verify_since,
                label=label,
            )
    return files
