"""The jobs of a chunked snapshot without Airflow; a test stands between any two of their effects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.listener import Replica
from airflow_provider_mssql_cdc.jobs.abandon_snapshot import Abandoned, abandon
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot
from airflow_provider_mssql_cdc.jobs.complete_waves import complete_waves
from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
from airflow_provider_mssql_cdc.jobs.read_wave import read_wave
from airflow_provider_mssql_cdc.jobs.status import status
from airflow_provider_mssql_cdc.jobs.task import OnStep, Skipped, unwatched
from airflow_provider_mssql_cdc.lake.plans import read_plan
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, Progress, StoredPlan, WaveOutcome
from airflow_provider_mssql_cdc.model.lsn import Lsn
from tests.support.load import Load


class ChunkedLoad(Load):
    """One Airflow run's jobs on one table; what travels between them goes through JSON."""

    def waves(self, *, on_step: OnStep = unwatched, **request: Any) -> list[PlannedWave] | Skipped:
        given = {"chunk_rows": 100, "chunks_per_wave": 1, "wait_seconds": 0, **request}
        asked = ChunkedRequest(self.table, self.attempt("plan"), **given)
        planned = plan_chunks(asked, connect=self.connect, on_step=on_step)
        if isinstance(planned, Skipped):
            return planned
        return [PlannedWave.from_xcom(json.loads(json.dumps(wave.to_xcom()))) for wave in planned]

    def planned(self, **request: Any) -> list[PlannedWave]:
        waves = self.waves(**request)
        assert not isinstance(waves, Skipped), waves
        return waves

    def chunk(
        self,
        wave: PlannedWave,
        *,
        on_step: OnStep = unwatched,
        listener: EmbeddedSqlServer | Replica | None = None,
    ) -> WaveOutcome | Skipped:
        return read_wave(
            self.table,
            wave,
            attempt=self.attempt("chunk"),
            connect=lambda: self.connect(listener),
            on_step=on_step,
        )

    def finish(
        self, outcomes: list[WaveOutcome | Skipped], *, on_step: OnStep = unwatched
    ) -> CompletedSnapshot | Skipped:
        came = [outcome for outcome in outcomes if isinstance(outcome, WaveOutcome)]
        through_xcom = [WaveOutcome.from_xcom(json.loads(json.dumps(one.to_xcom()))) for one in came]
        return complete_waves(
            self.table,
            through_xcom,
            attempt=self.attempt("complete"),
            connect=self.connect,
            on_step=on_step,
        )

    def load(self, **request: Any) -> CompletedSnapshot:
        """Plan, every wave, complete."""
        done = self.finish([self.chunk(wave) for wave in self.planned(**request)])
        assert not isinstance(done, Skipped), done
        return done

    def abandon(self, **arguments: Any) -> Abandoned:
        return abandon(self.table, attempt=self.attempt("abandon"), **arguments)

    def status(self, *, ask_server: bool = False) -> Progress:
        return status(self.table, connect=self.connect if ask_server else None)

    def plan_of(self, snapshot: Lsn) -> StoredPlan:
        plan = read_plan(TableLocation.plans_of(self.table), snapshot)
        assert plan is not None
        return plan

    def plans_folder(self) -> Path:
        return Path(TableLocation.plans_of(self.table).uri)
