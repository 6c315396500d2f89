"""``plan``: record the snapshot's LSN, cut the table, and return one small dict per mapped task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import conf

from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    as_flag,
    at_least,
    attempt_of,
    flag_or_template,
    not_negative,
    or_none,
    word_of,
)

if TYPE_CHECKING:
    from airflow.sdk import Context


WHOLE, CHUNKED = "whole", "chunked"


class MssqlCdcPlanOperator(MssqlCdcOperator):
    """Record the snapshot's LSN S, then cut the table into key ranges, or into chunks that waves read.

    Preflight reports all problems together, before anything is written. When bronze already holds a
    complete snapshot, the plan is one item with its S, and nothing is read. The result is never empty and
    fits ``[core] max_map_length``.

    ``mode="whole"``: one item per key range, all of which must be read within CDC's retention. Map
    ``MssqlCdcSnapshotOperator`` over them.

    ``mode="chunked"``: for tables that take longer to read. S is opened once, in bronze; the chunk bounds
    are stored once, in a table next to it; each run, retry or clear maps the waves that bronze does not
    hold yet. Run ``MssqlCdcChangesOperator`` at the same time, in another DAG, and map
    ``MssqlCdcChunkOperator`` over the items.

    :param table: the source table and its Delta tables. (templated)
    :param mode: ``"whole"`` or ``"chunked"``.
    :param max_ranges: limit of mapped tasks; ``whole``.
    :param rows_per_range: target rows per mapped task; ``whole``.
    :param chunk_rows: target rows per chunk; ``chunked``. A stored plan keeps its own value.
    :param max_waves: limit of waves that one run maps; ``chunked``. The next run maps the next ones.
    :param chunks_per_wave: chunks that one mapped task reads and commits; None chooses as many as fit the
        plan into one run, at most 16; ``chunked``. A stored plan keeps its own value.
    :param max_seconds: seconds from the start of the run after which it begins no further wave; the run
        then succeeds with ``complete`` skipped; ``chunked``.
    :param min_headroom_hours: the same, when the changes in bronze end less than this many hours above the
        oldest change that CDC keeps; ``chunked``.
    :param resnapshot: take a new snapshot although bronze holds one; at most one per run. (templated)
    :param wait_seconds: seconds that a resnapshot waits for capture to pass the stored snapshot's LSN.
    """

    template_fields: Sequence[str] = ("table", "resnapshot")
    field_checks: ClassVar = {
        "mode": word_of(WHOLE, CHUNKED),
        "max_ranges": at_least(1),
        "rows_per_range": at_least(1),
        "chunk_rows": at_least(1),
        "max_waves": at_least(1),
        "chunks_per_wave": or_none(at_least(1)),
        "max_seconds": or_none(at_least(1)),
        "min_headroom_hours": or_none(not_negative),
        "resnapshot": flag_or_template,
        "wait_seconds": at_least(0),
    }

    def __init__(
        self,
        *,
        mode: str = WHOLE,
        max_ranges: int = 256,
        rows_per_range: int = 1_000_000,
        chunk_rows: int = 1_000_000,
        max_waves: int = 256,
        chunks_per_wave: int | None = None,
        max_seconds: int | None = None,
        min_headroom_hours: float | None = None,
        resnapshot: bool | str = False,
        wait_seconds: int = 600,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.mode = mode
        self.max_ranges = max_ranges
        self.rows_per_range = rows_per_range
        self.chunk_rows = chunk_rows
        self.max_waves = max_waves
        self.chunks_per_wave = chunks_per_wave
        self.max_seconds = max_seconds
        self.min_headroom_hours = min_headroom_hours
        self.resnapshot = resnapshot
        self.wait_seconds = wait_seconds
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        return unusable_in_mode(
            self.mode, {"max_seconds": self.max_seconds, "min_headroom_hours": self.min_headroom_hours}, {}
        )

    def run_job(self, context: Context) -> list[dict[str, Any]]:
        return self._plan_waves(context) if self.mode == CHUNKED else self._plan_ranges(context)

    def _plan_waves(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_mssql_cdc.jobs.plan_chunks import ChunkedRequest, plan_chunks
        from airflow_provider_mssql_cdc.jobs.task import Skipped

        request = ChunkedRequest(
            table=self.table,
            attempt=attempt_of(context),
            chunk_rows=self.chunk_rows,
            max_waves=min(self.max_waves, max_map_length()),
            chunks_per_wave=self.chunks_per_wave,
            resnapshot=as_flag(self.resnapshot, name="resnapshot"),
            wait_seconds=self.wait_seconds,
            max_seconds=self.max_seconds,
            min_headroom_hours=self.min_headroom_hours,
        )
        planned = plan_chunks(request, connect=self.connect)
        if isinstance(planned, Skipped):
            self.skip(planned.reason)
        return [wave.to_xcom() for wave in planned]

    def _plan_ranges(self, context: Context) -> list[dict[str, Any]]:
        from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot

        request = PlanRequest(
            table=self.table,
            attempt=attempt_of(context),
            max_ranges=min(self.max_ranges, max_map_length()),
            rows_per_range=self.rows_per_range,
            resnapshot=as_flag(self.resnapshot, name="resnapshot"),
            wait_seconds=self.wait_seconds,
        )
        return [planned.to_xcom() for planned in plan_snapshot(request, connect=self.connect)]


def unusable_in_mode(mode: str, chunked: Mapping[str, Any], whole: Mapping[str, Any]) -> list[str]:
    """List the given arguments that only the other mode uses: a silently ignored limit is an error."""
    if mode not in (WHOLE, CHUNKED):
        return []
    given, other = (chunked, CHUNKED) if mode == WHOLE else (whole, WHOLE)
    used = [name for name, value in given.items() if value is not None and value is not False]
    return [f"{name} must be left out unless mode is {other!r}" for name in used]


def max_map_length() -> int:
    """Return Airflow's limit of mapped tasks: a longer plan fails its task ([core] max_map_length)."""
    limit: int = conf.getint("core", "max_map_length", fallback=1024)
    return limit
