"""The rows of one wave under one stamp, staged chunk by chunk."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ReplicaBehind, SchemaDrift
from airflow_provider_mssql_cdc.jobs.retention import refuse_lost_changes
from airflow_provider_mssql_cdc.jobs.source_rows import rows_of_range
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.jobs.steps import OnStep
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.row_stamp import RowStamp
from airflow_provider_mssql_cdc.lake.staging import stage_rows
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.chunk_plan import StoredPlan
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId
from airflow_provider_mssql_cdc.model.staged import ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.source.watermarks import commit_time, horizon, now

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


@dataclass(frozen=True, slots=True)
class StagedWave:
    """What one attempt read: files that nobody sees yet.

    :param stamp: the LSN recorded before the first row was read; on every row.
    :param commit_ts: its commit time (UTC), None where it is no mapped commit.
    :param megabytes: of Arrow data that came from the server.
    """

    stamp: Lsn
    commit_ts: datetime | None
    files: tuple[StagedFile, ...]
    horizon: ReadHorizon
    seconds: float
    megabytes: float


def stage_wave(
    session: SourceSession,
    source: LoadableTable,
    bronze: Bronze,
    *,
    plan: StoredPlan,
    wave: int,
    attempt: Attempt,
    on_step: OnStep,
) -> StagedWave:
    """Stamp, check that changes still lead on, read; every answer comes from this one session.

    :raises ReplicaBehind: the server that answers is older than S.
    :raises RetentionGap: changes above the position that bronze has reached have been purged.
    """
    instance, label = source.description.instance, source.description.table.label
    stamp = _stamp(session, source, plan)
    refuse_lost_changes(session, instance, state=bronze.state, label=label)
    committed_at = commit_time(session, stamp)
    on_step("stamped")
    began, counter = time.monotonic(), _Megabytes()
    prefix = f"{PlanId.new(plan.snapshot, attempt.run)}-w{wave:05d}"
    files: list[StagedFile] = []
    for chunk in plan.chunks_of(wave):
        described = f"{label}, chunk {chunk.index + 1} of {plan.chunks}"
        with rows_of_range(session, source, chunk.key_range, label=described) as batches:
            files += stage_rows(
                bronze,
                prefix=f"{prefix}-c{chunk.index:06d}-{attempt.label}",
                stamp=RowStamp(instance.name, stamp, committed_at, snapshot=plan.snapshot, chunk=chunk.index),
                columns=source.lake_columns,
                batches=counter.passing(batches),
            )
        on_step("read")
    after = horizon(session, instance)
    on_step("staged")
    return StagedWave(stamp, committed_at, tuple(files), after, time.monotonic() - began, counter.megabytes)


def _stamp(session: SourceSession, source: LoadableTable, plan: StoredPlan) -> Lsn:
    """This session's own ``now()``, at or above S."""
    label = source.description.table.label
    if plan.start.split != source.split_hash:
        raise SchemaDrift(
            f"{label}: the stored plan of snapshot {plan.snapshot} was cut on other columns, or on columns "
            "of another type, than the table is cut on now. Open another snapshot: resnapshot=True"
        )
    stamp = now(session, source.description.instance)
    if stamp < plan.snapshot:
        raise ReplicaBehind(
            f"{label}: the server that answers is at {stamp}, behind the snapshot's LSN {plan.snapshot}; "
            "another replica answered when it was opened. Trying again may reach one that has caught up"
        )
    return stamp


class _Megabytes:
    """Counts the record batches that pass."""

    def __init__(self) -> None:
        self.megabytes = 0.0

    def passing(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            self.megabytes += batch.nbytes / 1e6
            yield batch
