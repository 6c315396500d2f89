"""The commits without rows that begin a chunked snapshot, or give it up."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import CommitProperties, Transaction

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.retries import until_committed
from airflow_provider_mssql_cdc.lake.transactions import (
    ABANDONED,
    BASE,
    OPEN,
    coverage_transactions,
    lsn_transactions,
    opened_app_id,
    run_app_id,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.commit_decision import AddSnapshot, KeepStored
from airflow_provider_mssql_cdc.planning.opening import GoOn, coverage_after_opening, decide_opening

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Opened:
    """S was opened by this call.

    :param rebased: coverage begins at S now although it began elsewhere before.
    """

    snapshot: Lsn
    rebased: bool


def open_snapshot(
    bronze: Bronze,
    snapshot: Lsn,
    *,
    instance: str,
    commit_ts: datetime | None,
    resnapshot: bool,
    gap_position: Lsn | None,
    run: str,
    run_id: str,
) -> Opened | GoOn | KeepStored:
    """Record S in bronze, and start or re-base coverage at it; or say which snapshot is there already.

    Leaves the handle on the newest version.

    :param commit_ts: commit time of S (UTC), None where S is no mapped commit.
    :param gap_position: the position above which changes are proven lost; None without such a proof.
    :param run: eight hex digits that name the Airflow run; a resnapshot leaves them in bronze.
    :raises NotReadyYet: another snapshot was opened meanwhile, at or above S.
    :raises Superseded: coverage begins above S.
    """

    def once() -> Opened | GoOn | KeepStored:
        state = bronze.state
        gap = state.coverage is not None and state.coverage.changes == gap_position
        decision = decide_opening(
            state, snapshot, resnapshot=resnapshot, snapshot_of_run=bronze.snapshot_of_run(run), gap=gap
        )
        if not isinstance(decision, AddSnapshot):
            return decision
        bronze.commit(
            [],
            transactions=_transactions(bronze, snapshot, decision, run=run if resnapshot else None),
            event="snapshot_open",
            user_metadata={
                "open": snapshot.text,
                "capture_instance": instance,
                "commit_ts": None if commit_ts is None else commit_ts.isoformat(),
                "run_id": run_id,
            },
        )
        return Opened(snapshot, rebased=decision.rebase and state.coverage is not None)

    what = f"opening of snapshot {snapshot} in {bronze.location}"
    outcome = until_committed(once, what=what, reload=bronze.reload)
    bronze.reload()
    return outcome


def _transactions(
    bronze: Bronze, snapshot: Lsn, decision: AddSnapshot, *, run: str | None
) -> Sequence[Transaction]:
    """Where coverage stays as it is its base is put again: a commit that moves the base conflicts then."""
    transactions = [*lsn_transactions(OPEN, snapshot), Transaction(opened_app_id(snapshot), 1)]
    if run is not None:
        transactions += lsn_transactions(run_app_id(run), snapshot)
    coverage = coverage_after_opening(bronze.state, snapshot, decision=decision)
    if coverage != bronze.state.coverage:
        return transactions + coverage_transactions(coverage)
    return transactions + lsn_transactions(BASE, coverage.base)


def abandon_unfinished(bronze: Bronze, *, run_id: str, snapshot: Lsn | None = None) -> Lsn | None:
    """Give up the chunked snapshot that is being loaded; its S, None when there is none.

    Coverage and everything else stays. Rows that waves have written stay until :func:`delete_rows`.

    :param snapshot: give up this one alone; another one that is being loaded is left alone.
    """

    def once() -> Lsn | None:
        unfinished, coverage = bronze.state.unfinished, bronze.state.coverage
        if unfinished is None or coverage is None or snapshot not in (None, unfinished):
            return None
        # The base is put again, unchanged, as a completion does: of the two at once one is decided anew.
        bronze.commit(
            [],
            transactions=[*lsn_transactions(ABANDONED, unfinished), *lsn_transactions(BASE, coverage.base)],
            event="snapshot_open",
            user_metadata={"abandoned": unfinished.text, "run_id": run_id},
        )
        return unfinished

    abandoned = until_committed(once, what=f"abandoning in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    return abandoned


def delete_rows(bronze: Bronze, snapshot: Lsn) -> int:
    """Delete the rows of an abandoned snapshot; how many. Waves have files of their own, which just go.

    VACUUM frees the space when its retention has passed.
    """

    def once() -> int:
        deleted = bronze.table.delete(
            f"_snapshot = '{snapshot.text}' AND _operation = 0", commit_properties=CommitProperties()
        )
        return int(deleted["num_deleted_rows"] or 0)

    rows = until_committed(once, what=f"rows of {snapshot} in {bronze.location}", reload=bronze.reload)
    bronze.reload()
    log.info("%s: %d rows of snapshot %s deleted", bronze.location, rows, snapshot)
    return rows
