"""Another history: a database that was restored, or that lost commits in a failover."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import (
    PermissionDenied,
    ReplicaBehind,
    SourceObjectMissing,
    StateDamaged,
)
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.changes import read_changes_state
from airflow_provider_mssql_cdc.lake.stored_commits import newest_lsn_beside_changes, recorded_commit_time
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import CommitStamp
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.history import HistoryAnswers, other_history
from airflow_provider_mssql_cdc.source.instances import visible_instances
from airflow_provider_mssql_cdc.source.watermarks import captured, is_read_only, now, utc_of, zone_of
from airflow_provider_mssql_cdc.tsql import cdc

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession

log = logging.getLogger(__name__)

_ASKING = "asking whether the server's history is the one that bronze was read from"

WAY_ON = (
    "the database was restored to an earlier point, or a failover lost commits. Bronze may hold changes that "
    "the source no longer has, and no snapshot mends that, resnapshot=True neither: load into a new bronze "
    "path (docs/operations.md, The source was restored)"
)


def refuse_other_history(
    session: SourceSession, instance: CaptureInstance, *, bronze: Bronze, label: str
) -> None:
    """Fail when bronze's changes come from a history that the server does not have; one round trip.

    Call it outside any transaction, so that each question sees what the one before it left.

    :raises ReplicaBehind: a replica that has not got there yet; another attempt may find it caught up.
    :raises StateDamaged: another history is proven.
    """
    coverage = bronze.state.coverage
    if coverage is None:
        return
    above = [lsn for lsn in (bronze.state.newest,) if lsn is not None and lsn > coverage.changes]
    stored = _stored(bronze, coverage.changes, above)
    row = _asked(session, instance, [stamp.lsn for stamp in stored])
    reached = _reached(instance, Lsn.from_server(row["max_lsn"]))
    is_replica = row["updateability"] == "READ_ONLY"
    needed = coverage.changes if is_replica else max([coverage.changes, *above])
    if reached is None or needed > reached:
        reached = _reached_by_any(session, instance, reached)
        _refuse_ahead(needed, reached, label, is_replica=is_replica)
    assert reached is not None
    lows = [lsn for lsn in (Lsn.from_server(row["low"]), instance.start_lsn) if lsn is not None]
    answers = HistoryAnswers(
        reached=reached,
        entries=[
            (stamp, _entry(stamp, row[f"entry_{number}"]))
            for number, stamp in enumerate(stored)
            if stamp.lsn <= reached  # a replica need not have come to the newest snapshot's yet
        ],
        smallest=Lsn.from_server(row["smallest"]),
        low=max(lows, default=None),
    )
    if proof := other_history(answers):
        raise StateDamaged(f"{label}: {proof}: {WAY_ON}")


def refuse_snapshot_ahead(
    session: SourceSession, instance: CaptureInstance, *, snapshot: Lsn, label: str
) -> None:
    """Fail when the server has not reached the S that rows were read under; bronze need not hold anything.

    :raises ReplicaBehind: a replica that has not got there yet.
    :raises StateDamaged: the database was restored, or lost commits, after the rows were read.
    """
    reached = now(session, instance)
    if snapshot <= reached:
        return
    if is_read_only(session):
        raise ReplicaBehind(
            f"{label}: the replica that answers is at {reached}, behind the snapshot's LSN {snapshot}; it "
            "catches up, or another one answers at the next attempt"
        )
    raise StateDamaged(
        f"{label}: the snapshot was read at {snapshot}, and the server is only at {reached}: the database "
        "was restored to an earlier point, or a failover lost commits, since then. Nothing of this snapshot "
        "is committed; start a new run"
    )


def _refuse_ahead(position: Lsn, reached: Lsn | None, label: str, *, is_replica: bool) -> None:
    if reached is not None and position <= reached:
        return
    if is_replica:
        raise ReplicaBehind(
            f"{label}: the replica that answers is at {reached}, behind the position {position} that changes "
            "have reached; it catches up, or another one answers at the next attempt"
        )
    raise StateDamaged(
        f"{label}: what was read up to {position} is in bronze, and the server is only at {reached}: {WAY_ON}"
    )


def _stored(bronze: Bronze, position: Lsn, above: Iterable[Lsn]) -> list[CommitStamp]:
    """What bronze holds with a commit time of the mapping: of the position, of rows below and above it."""
    stamp = read_changes_state(bronze.table).stamp
    found = {} if stamp is None else {stamp.lsn: stamp}
    newest = newest_lsn_beside_changes(bronze, position)
    others: Iterable[Lsn | None] = ((position if stamp is None else None), newest, *above)
    for lsn in others:
        if lsn is not None and lsn not in found:
            time = recorded_commit_time(bronze, lsn)
            if time is not None:
                found[lsn] = CommitStamp(lsn, time)
    return list(found.values())


def _asked(session: SourceSession, instance: CaptureInstance, lsns: list[Lsn]) -> dict[str, Any]:
    """The answers; of a login that may not read the mapping those that need no right."""
    try:
        return session.row(cdc.history(instance.name, lsns, zone_of(session)), doing=_ASKING)
    except (PermissionDenied, SourceObjectMissing) as exc:
        log.warning("commits cannot be compared with the server's (%s)", exc)
    reached = captured(session)
    return {
        "max_lsn": None if reached is None else reached.text,
        "smallest": None,
        "low": None,
        "updateability": "READ_ONLY" if is_read_only(session) else "READ_WRITE",
        **{f"entry_{number}": None for number in range(len(lsns))},
    }


def _entry(stamp: CommitStamp, text: str | None) -> CommitStamp | None:
    time = utc_of(text)
    return None if time is None else CommitStamp(stamp.lsn, time)


def _reached(instance: CaptureInstance, max_lsn: Lsn | None) -> Lsn | None:
    start = None if instance.start_lsn is None else instance.start_lsn.decremented()
    return max((lsn for lsn in (max_lsn, start) if lsn is not None), default=None)


def _reached_by_any(session: SourceSession, instance: CaptureInstance, reached: Lsn | None) -> Lsn | None:
    """A newer instance's start counts too: capture says it has come that far until it moves on its own."""
    of_table = visible_instances(session, (instance.source_schema, instance.source_table))
    starts = [other.start_lsn.decremented() for other in of_table if other.start_lsn is not None]
    return max((lsn for lsn in (reached, *starts) if lsn is not None), default=None)
