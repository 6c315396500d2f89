"""Upkeep of one table's bronze, silver and facts: fold, compact, vacuum, checkpoint; each on its own."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError, MssqlCdcError
from airflow_provider_mssql_cdc.jobs.facts import completion_row, write_snapshot_facts
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze
from airflow_provider_mssql_cdc.lake.commit import held_snapshot
from airflow_provider_mssql_cdc.lake.compact import compact_bronze, compact_silver
from airflow_provider_mssql_cdc.lake.delta_table import LakeTable
from airflow_provider_mssql_cdc.lake.facts_upkeep import FactsTable, compact_facts, open_facts, trim_facts
from airflow_provider_mssql_cdc.lake.fold import (
    CannotFold,
    Folded,
    FoldRequest,
    changes_up_to,
    fold,
    newest_change,
)
from airflow_provider_mssql_cdc.lake.join_files import JoinedFiles
from airflow_provider_mssql_cdc.lake.silver.table import Silver, bronze_number, open_silver, refuse_foreign
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.stored_commits import stored_snapshot
from airflow_provider_mssql_cdc.lake.transactions import read_horizon
from airflow_provider_mssql_cdc.lake.vacuum import Vacuumed, checkpoint, vacuum, version_to_keep
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.planning.coverage import consistency
from airflow_provider_mssql_cdc.planning.upkeep import why_not_fold
from airflow_provider_mssql_cdc.table import MssqlCdcTable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpkeepOptions:
    """What upkeep does, for any table.

    :param fold_share: fold when the changes that leave the table are at least this share of the snapshot's
        rows; 0.0 to 1.0.
    :param fold_after_hours: fold up to changes that are at least this old.
    :param keep_changes_days: changes younger than this stay in bronze after a fold; None for none.
    :param vacuum_hours: remove files that left a table at least this long ago.
    :param facts_keep_days: remove older facts rows of events that come with every run; None keeps all.
    """

    compact: bool = True
    fold: bool = False
    fold_share: float = 0.1
    fold_after_hours: int = 168
    keep_changes_days: int | None = None
    vacuum: bool = True
    vacuum_hours: int = 168
    facts_keep_days: int | None = None


@dataclass(frozen=True, slots=True)
class UpkeepOrder:
    """Parameters of one run of upkeep.

    :param silver: path or URI of the silver table; None leaves silver out, and nothing is folded.
    :param with_facts: whether the facts table is looked after too; several tables share it.
    """

    table: MssqlCdcTable
    silver: str | None
    attempt: Attempt
    options: UpkeepOptions = field(default_factory=UpkeepOptions)
    with_facts: bool = True
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def silver_location(self) -> TableLocation | None:
        return None if self.silver is None else TableLocation(self.silver, self.table.storage_options)


@dataclass(frozen=True, slots=True)
class UpkeepDone:
    """Result of one run of upkeep.

    :param tables: for ``bronze``, ``silver`` and ``facts`` what each part did, in JSON types; a fold that was
        not due or not possible has a ``reason``.
    """

    tables: Mapping[str, Mapping[str, Any]]

    def to_xcom(self) -> dict[str, Any]:
        return {table: dict(parts) for table, parts in self.tables.items()}


@dataclass(frozen=True, slots=True)
class _Part:
    """One thing to do to one of the three tables."""

    table: str
    name: str
    run: Callable[[], Any]


def upkeep(order: UpkeepOrder) -> UpkeepDone | Skipped:
    """Do each part; the source is not asked. Safe next to loads, changes and merges, and idempotent.

    A part that fails does not keep the others from being done; the first failure is raised at the end.

    :raises ConfigurationError: bronze and silver are one path.
    :raises ForeignTable: silver belongs to another source table.
    """
    bronze = open_bronze(TableLocation.bronze_of(order.table))
    if bronze is None:
        return Skipped(f"{order.table.label}: there is no bronze table at {order.table.bronze} yet")
    silver = _silver_of(order, bronze)
    facts = open_facts(TableLocation.facts_of(order.table)) if order.with_facts else None
    done, failures = dict[str, dict[str, Any]](), list[MssqlCdcError]()
    for part in _parts(order, bronze, silver, facts):
        try:
            done.setdefault(part.table, {})[part.name] = part.run()
        except MssqlCdcError as exc:
            log.warning(
                "%s: %s of %s failed, the other parts go on: %s",
                *(order.table.label, part.name, part.table, exc),
            )
            failures.append(exc)
    if failures:
        raise failures[0]
    return UpkeepDone(done)


def _silver_of(order: UpkeepOrder, bronze: Bronze) -> Silver | None:
    location = order.silver_location
    if location is None:
        return None
    if location == bronze.location:
        raise ConfigurationError(f"{order.table.label}: silver and bronze are one path, {bronze.location}")
    silver = open_silver(location)
    if silver is not None:
        refuse_foreign(silver, bronze)
    return silver


def _parts(
    order: UpkeepOrder, bronze: Bronze, silver: Silver | None, facts: FactsTable | None
) -> Iterator[_Part]:
    """Yield the parts in their order: a fold before compact, which would move rows away from silver."""
    run_id = order.attempt.run_id
    if order.options.fold:
        yield _Part("bronze", "fold", lambda: _fold(order, bronze, silver))
    if order.options.compact:
        yield _Part("bronze", "compact", lambda: _joined(bronze, compact_bronze(bronze, run_id=run_id)))
        if silver is not None:
            yield _Part("silver", "compact", lambda: _joined(silver, compact_silver(silver, run_id=run_id)))
        if facts is not None:
            yield _Part("facts", "compact", lambda: _joined(facts, compact_facts(facts, run_id=run_id)))
    if facts is not None and order.options.facts_keep_days is not None:
        before = order.started_at - timedelta(days=order.options.facts_keep_days)
        yield _Part("facts", "trim", lambda: {"rows": trim_facts(facts, before=before, run_id=run_id)})
    yield from _cleaning(order, bronze, silver, facts)


def _cleaning(
    order: UpkeepOrder, bronze: Bronze, silver: Silver | None, facts: FactsTable | None
) -> Iterator[_Part]:
    """Yield vacuum and checkpoint of each table; bronze keeps what silver continues from."""
    keep = version_to_keep(bronze, silver)
    is_behind = keep is not None and keep < bronze.version
    hours = order.options.vacuum_hours
    if order.options.vacuum:
        yield _Part("bronze", "vacuum", lambda: _removed(vacuum(bronze, hours=hours, keep=keep)))
        if silver is not None:
            yield _Part("silver", "vacuum", lambda: _removed(vacuum(silver, hours=hours)))
        if facts is not None:
            yield _Part("facts", "vacuum", lambda: _removed(vacuum(facts, hours=hours)))
    yield _Part("bronze", "checkpoint", lambda: _checkpointed(bronze, keep_log=is_behind))
    if silver is not None:
        yield _Part("silver", "checkpoint", lambda: _checkpointed(silver))
    if facts is not None:
        yield _Part("facts", "checkpoint", lambda: _checkpointed(facts))


def _checkpointed(table: LakeTable, *, keep_log: bool = False) -> dict[str, int | None]:
    return {"version": checkpoint(table.reload(), keep_log=keep_log)}


def _joined(table: LakeTable, joined: JoinedFiles) -> dict[str, int]:
    log.info(
        "%s: %d small file(s), %d bytes, written again as %d, %d bytes; %d file(s) now",
        *(table.location, joined.removed, joined.removed_bytes, joined.added, joined.added_bytes),
        joined.files,
    )
    return {
        "files_removed": joined.removed,
        "files_added": joined.added,
        "bytes_removed": joined.removed_bytes,
        "bytes_added": joined.added_bytes,
        "files": joined.files,
    }


def _removed(vacuumed: Vacuumed) -> dict[str, int]:
    return {"files": vacuumed.files, "staged_files": vacuumed.staged}


def _fold(order: UpkeepOrder, bronze: Bronze, silver: Silver | None) -> dict[str, Any]:
    label = order.table.label
    _write_facts(order, bronze, None)
    request = _fold_request(order, bronze, silver)
    if isinstance(request, str):
        log.info("%s: not folded: %s", label, request)
        return {"reason": request}
    try:
        folded = fold(request)
    except CannotFold as exc:
        log.info("%s: not folded: %s", label, exc)
        return {"reason": str(exc)}
    _write_facts(order, bronze, folded)
    log.info(
        "%s: folded at %s: its state of %d rows is the snapshot now, %d change row(s) left bronze",
        *(label, folded.fold.at, folded.rows, folded.changes),
    )
    return {"lsn": folded.fold.at.text, "rows": folded.rows, "changes_removed": folded.changes}


def _fold_request(order: UpkeepOrder, bronze: Bronze, silver: Silver | None) -> FoldRequest | str:
    """Return what to fold, or why nothing is folded."""
    position = silver.position if silver is not None else None
    if (reason := why_not_fold(bronze.state, position, bronze=bronze_number(bronze))) is not None:
        return reason
    assert silver is not None
    assert position is not None
    assert bronze.state.snapshot is not None
    if (damage := silver.damage) is not None:
        return f"{damage}; run the merge first"
    before = order.started_at - timedelta(hours=order.options.fold_after_hours)
    at = newest_change(bronze, before=before, until=position.changes)
    if at is None or at.lsn <= bronze.state.snapshot:
        return f"no change that silver has is older than {order.options.fold_after_hours} hours"
    past = consistency(read_horizon(bronze.table, bronze.state.snapshot), at.lsn, stamp=at)
    if not past.passed:
        return past.reason
    take_up_to = at.lsn
    if order.options.keep_changes_days is not None:
        before = order.started_at - timedelta(days=order.options.keep_changes_days)
        oldest = newest_change(bronze, before=before, until=at.lsn)
        take_up_to = bronze.state.snapshot if oldest is None else oldest.lsn
    changes = changes_up_to(bronze, take_up_to)
    rows = stored_snapshot(bronze, bronze.state.snapshot).rows
    if changes == 0 or changes < order.options.fold_share * rows:
        share = order.options.fold_share
        return f"{changes:,} change row(s) would leave, fewer than fold_share={share} of {rows:,}"
    return FoldRequest(bronze, at, silver.key, position, take_up_to, order.attempt.run_id)


def _write_facts(order: UpkeepOrder, bronze: Bronze, folded: Folded | None) -> None:
    """Write the row of bronze's newest fold, unless it was written.

    :param folded: what this run did; None when an earlier one was interrupted before it wrote the row.
    """
    if bronze.fold is None:
        return
    known: dict[str, Any] = {"detail": {"older": bronze.fold.older.text}}
    if folded is not None:
        known["capture_instance"] = folded.instance
        known["detail"]["changes_removed"] = folded.changes
        known["detail"]["bronze_version"] = folded.version
    row = completion_row(bronze, held_snapshot(bronze), **known)
    started_at = order.started_at if folded is not None else None
    write_snapshot_facts(order.table, row, attempt=order.attempt, started_at=started_at)
