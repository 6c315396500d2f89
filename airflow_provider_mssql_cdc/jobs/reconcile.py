"""Reconcile one item: read it once, wait until silver has caught up, compare row by row, report."""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.jobs.facts import write_signed
from airflow_provider_mssql_cdc.jobs.plan_reconcile import ReconcileOrder, open_tables
from airflow_provider_mssql_cdc.jobs.read_reconcile import read_item
from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.compare import Comparison, compare
from airflow_provider_mssql_cdc.lake.log import came_since
from airflow_provider_mssql_cdc.lake.reconcile import ReconcileTable
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.reconcile import FAILURES, Found, ReadRows, ReconcileItem
from airflow_provider_mssql_cdc.planning.coverage import CAPTURE_MOVES, consistency

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reconciled:
    """Result of one item.

    :param silver_lsn: LSN up to which silver contained changes when it was compared, as text.
    """

    item: ReconcileItem
    found: Found
    read_lsn: str
    silver_lsn: str
    left_out: dict[str, str]

    @property
    def problem(self) -> str | None:
        """Return one sentence with the remedy when silver is not proven; else None."""
        found = self.found
        if found.failed:
            counts = ", ".join(f"{count:,} {name}" for name, count in found.counts(FAILURES).items() if count)
            columns = f" (columns: {', '.join(found.columns)})" if found.columns else ""
            return (
                f"silver is not the source's state: {counts} of {found.compared:,} keys{columns}. The keys "
                "are in <silver>_reconcile, hashed unless show_keys=True. Find out who else writes silver or "
                "the source's change tables; mssql_cdc_bootstrap(resnapshot=True) and a merge then make "
                "silver right"
            )
        if not found.compared and (found.rows_source or found.rows_silver):
            return "nothing was compared although there are rows"
        return None

    def to_xcom(self) -> dict[str, Any]:
        """Return JSON types; no key values, regardless of ``show_keys``."""
        return {
            **self.item.to_xcom(),
            **self.found.counts(),
            "columns": self.found.columns,
            "left_out": self.left_out,
            "read_lsn": self.read_lsn,
            "silver_lsn": self.silver_lsn,
        }


def reconcile_item(
    order: ReconcileOrder, item: ReconcileItem, *, connect: Connect
) -> Reconciled | Skipped | Waiting:
    """Read one item, wait until silver contains all changes up to the read, compare, report.

    Called again after a wait, it continues with the rows it has read.

    :raises ReplicaBehind: the server that answers is older than silver's snapshot.
    """
    opened = open_tables(order)
    if isinstance(opened, Skipped):
        return opened
    bronze, silver = opened
    reports = ReconcileTable(silver)
    key = _note_key(order, item)
    read = reports.noted(key)
    if read is not None and read.read_at_lsn < _lowest_compared(bronze, silver):
        log.info(
            "%s: bronze or silver has a newer snapshot than %s; it is read again", order.label, item.label
        )
        reports.forget(key, read)
        read = None
    if read is None:
        read = read_item(order, item, reports, bronze, silver, connect=connect)
        reports.note(key, read)
    assert silver.position is not None
    if read.until is None:
        bronze.reload()
        coverage = bronze.state.coverage
        assert coverage is not None
        past = consistency(read.horizon, coverage.changes, stamp=read_changes_state(bronze.table).stamp)
        if not past.passed:
            return Waiting(f"{order.label}: {item.label} waits: {past.reason}. {CAPTURE_MOVES}")
        reports.note(key, replace(read, until=coverage.changes))
        return reconcile_item(order, item, connect=connect)  # silver of now, which may have a newer snapshot
    if silver.position.changes < read.until:
        return Waiting(
            f"{order.label}: {item.label} waits: silver's changes end at {silver.position.changes} and have "
            f"to reach {read.until}; a merge brings them"
        )
    if came_since(bronze.reload().table, silver.position.version, "repair"):
        # A repair may bring changes below silver's position: bronze would explain what silver lacks.
        return Waiting(
            f"{order.label}: {item.label} waits: an interval of changes was repaired in bronze after silver "
            "was merged; a merge brings it"
        )
    if read.read_at_lsn < _lowest_compared(bronze, silver):
        return reconcile_item(order, item, connect=connect)  # a fold took out the changes above the read
    return _compared(order, item, reports, bronze, silver, read, key=key)


def _lowest_compared(bronze: Bronze, silver: Silver) -> Lsn:
    """Return the LSN above which bronze has the changes that a comparison needs."""
    coverage = bronze.state.coverage
    assert silver.position is not None
    assert coverage is not None
    return max(silver.position.snapshot, coverage.base)


def _note_key(order: ReconcileOrder, item: ReconcileItem) -> str:
    """Return the key under which this try stores what it has read; another try reads again."""
    attempt = order.attempt
    said = f"{attempt.run} {attempt.map_index} {attempt.try_number} {item.cycle} {item.tile} {item.bucket}"
    return hashlib.sha256(said.encode()).hexdigest()[:24]


# -- the comparison


def _compared(
    order: ReconcileOrder,
    item: ReconcileItem,
    reports: ReconcileTable,
    bronze: Bronze,
    silver: Silver,
    read: ReadRows,
    *,
    key: str,
) -> Reconciled:
    assert silver.position is not None
    assert read.until is not None
    comparison = Comparison(
        silver=silver,
        bronze=bronze,
        rows=reports.staged(read.rows),
        asked=None if read.asked is None else reports.staged(read.asked),
        after=read.read_at_lsn,
        until=read.until,
        show_keys=order.show_keys,
    )
    found = compare(comparison)
    end = silver.position.changes
    reports.record(item, read, found, silver_lsn=end, run_id=order.attempt.run_id)
    _write_facts(order, item, silver, read, found)
    reports.forget(key, read)
    log.info(
        "%s: %s: %d rows of the source, %d of silver; %d equal, %d moved and explained, %d missing, "
        "%d extra, %d different, %d unexplained; read at %s, silver at %s",
        *(order.label, item.label, found.rows_source, found.rows_silver, found.equal, found.moved),
        *(found.missing, found.extra, found.different, found.unexplained, read.read_at_lsn, end),
    )
    for name, reason in read.left_out.items():
        log.info("%s: column %s is not compared: %s", order.label, name, reason)
    return Reconciled(item, found, read.read_at_lsn.text, end.text, dict(read.left_out))


def _write_facts(
    order: ReconcileOrder, item: ReconcileItem, silver: Silver, read: ReadRows, found: Found
) -> None:
    assert silver.position is not None
    row = FactsRow(
        event="reconcile",
        target=silver.location.uri,
        source=silver.identity.label,
        snapshot=silver.position.snapshot,
        rows=found.rows_source,
        min_lsn=read.read_at_lsn,
        end_lsn=silver.position.changes,
        detail={
            "item": item.kind,
            "number": item.number,
            "cycle": item.cycle,
            **found.counts(("rows_silver", "equal", "moved", *FAILURES)),
            "columns": found.columns,
            "left_out": dict(read.left_out),
        },
    )
    said = f"{item.label} {order.attempt.run} {order.attempt.try_number}"
    digest = hashlib.sha256(said.encode()).hexdigest()[:12]
    identifier = (
        f"{facts_identifier(silver.location.uri, 'reconcile', read.read_at_lsn, item.number)}.{digest}"
    )
    write_signed(order.table, row, attempt=order.attempt, identifier=identifier, started_at=order.started_at)
