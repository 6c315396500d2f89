"""``complete``: commit all ranges in one Delta commit, or none, and write the facts row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.model.chunks import WaveOutcome
from airflow_provider_mssql_cdc.model.plan import StagedRange
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    announce,
    attempt_of,
    flag,
    with_own_alias,
)

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot


class MssqlCdcCompleteOperator(MssqlCdcOperator):
    """Commit everything that the mapped tasks staged, or nothing, and write the ``bootstrap`` facts row.

    The waves of a chunked snapshot are already in bronze; the snapshot is marked complete once all of them
    are. A run that mapped only some of the missing waves is skipped here, and the next run continues.

    It is idempotent. It returns ``{"lsn", "commit_ts", "rows", "version", "consistent_after"}``: the
    snapshot's LSN, from which changes continue; its commit time (UTC, ISO 8601) or None; its rows; a bronze
    version that holds it; and the point that changes must pass until the rebuilt state equals the source.

    :param table: the source table and its Delta tables. (templated)
    :param staged: the results of the mapped tasks, ``read.output`` or ``chunk.output``.
    :param asset_events: emit an event on the bronze table's asset (``delta_asset(bronze)``) when this run
        completed a snapshot, with the ``extra`` ``{"lsn", "version", "rows"}``. A cleared task emits the
        event of its run again.
    :param outlets: further assets, which get an event with that ``extra`` each time the task succeeds, and
        aliases, which get one when this run completed a snapshot.
    """

    template_fields: Sequence[str] = ("table", "staged")
    field_checks: ClassVar = {"asset_events": flag}

    def __init__(self, *, staged: Any, asset_events: bool = True, **kwargs: Any) -> None:
        bronze = getattr(kwargs.get("table"), "bronze", "")
        super().__init__(**with_own_alias(kwargs, table=bronze, announced=asset_events))
        self.staged = staged
        self.asset_events = asset_events
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        if isinstance(self.staged, (str, bytes, dict)) or not hasattr(self.staged, "__iter__"):
            raise ConfigurationError(
                f"staged must be a list of what the reads return, got {type(self.staged).__name__}: "
                "pass staged=read.output"
            )
        completed = self._completed(list(self.staged), context)
        announce(
            context,
            self.outlets,
            table=completed.bronze,
            extra={"lsn": completed.snapshot.text, "version": completed.version, "rows": completed.rows},
            changed=completed.committed,
        )
        return completed.to_xcom()

    def _completed(self, items: list[Any], context: Context) -> CompletedSnapshot:
        from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
        from airflow_provider_mssql_cdc.jobs.complete_waves import complete_waves

        if not any(isinstance(item, Mapping) and "wave" in item for item in items):
            ranges = [StagedRange.from_xcom(item) for item in items]
            return complete_snapshot(self.table, ranges, attempt=attempt_of(context), connect=self.connect)
        waves = [WaveOutcome.from_xcom(item) for item in items]
        completed = complete_waves(self.table, waves, attempt=attempt_of(context), connect=self.connect)
        if isinstance(completed, Skipped):
            self.skip(completed.reason)
        return completed
