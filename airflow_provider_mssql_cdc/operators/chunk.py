"""``chunk``: read and commit one wave of a chunked snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.model.chunks import PlannedWave
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator, attempt_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow.sdk import Context

WAVE_LABEL = "mssql_cdc_wave"
"""Context key of the label that the UI shows for a mapped task."""


class MssqlCdcChunkOperator(MssqlCdcOperator):
    """Read one wave of chunks in bounded memory and append it to bronze once, in one commit.

    Map it over the plan: ``.partial(task_id="chunk", table=orders).expand(wave=plan.output)``.

    Waves may run in any order, at the same time, repeatedly, days apart: each is committed once. A wave
    that bronze holds is not read. A wave that begins after the plan's ``max_seconds``, or below its
    ``min_headroom_hours``, is skipped, and the next run reads it. It returns ``{"snapshot", "wave",
    "waves", "rows", "added", "done", "more"}``.

    :param table: the source table and its Delta tables. (templated)
    :param wave: one item of the plan; it is data and not templated.
    """

    field_checks: ClassVar = {}

    def __init__(self, *, wave: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.wave = wave
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        planned = PlannedWave.from_xcom(self.wave)
        label = "already in bronze" if planned.done else f"wave {planned.wave + 1} of {planned.waves}"
        self.show_label(context, name=WAVE_LABEL, text=label)
        from airflow_provider_mssql_cdc.jobs.read_wave import read_wave

        outcome = read_wave(self.table, planned, attempt=attempt_of(context), connect=self.connect)
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        return outcome.to_xcom()
