"""``complete``: all ranges or none, in one Delta commit, then the facts row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.chunks import Stopped, WaveOutcome
from airflow_provider_mssql_cdc.model.staged import StagedRange
from airflow_provider_mssql_cdc.operators._assets import announce
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator, attempt_of

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot


class MssqlCdcCompleteOperator(MssqlCdcOperator):
    """Commit what the mapped tasks staged, all of it or nothing, and write the ``bootstrap`` facts row.

    Of a chunked snapshot the waves are in bronze already; when all of them are, it is marked complete. A
    run that mapped a part of what was left ends here, skipped; the next one goes on.

    Run again at any time it adds nothing twice. It returns ``{"lsn", "commit_ts", "rows", "version",
    "consistent_after"}``: the snapshot's LSN, from which changes continue; its commit time (UTC, ISO
    8601) or None; its rows; a bronze version that holds it; and the point that changes have to pass
    until the rebuilt state equals the source.

    :param table: what is loaded, from where and to where. (templated)
    :param staged: the outcomes of the mapped tasks, ``read.output`` or ``chunk.output``.
    :param outlets: assets whose events carry the LSN and the version in ``extra``. An asset gets an event
        each time the task succeeds; an ``AssetAlias`` one per completion, on the bronze table's asset, and
        none where the attempt that committed was ended before Airflow recorded its success.
    """

    template_fields: Sequence[str] = ("table", "staged")

    def __init__(self, *, staged: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.staged = staged
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        if isinstance(self.staged, (str, bytes, dict)) or not hasattr(self.staged, "__iter__"):
            raise ConfigurationError(
                f"staged is a {type(self.staged).__name__}, not the outcomes of the reads: "
                "pass staged=read.output"
            )
        completed = self._completed(list(self.staged), context)
        announce(
            context,
            self.outlets,
            bronze=completed.bronze,
            extra={"lsn": completed.snapshot.text, "version": completed.version, "rows": completed.rows},
            first=completed.first,
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
        if isinstance(completed, Stopped):
            self.skip(completed.reason)
        return completed
