"""``changes``: append the changes after bronze's position, or read one data interval again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import NotReadyYet
from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.model.table_uri import canonical_uri
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    announce,
    at_least,
    attempt_of,
    flag,
    one_of,
    or_none,
    with_own_alias,
)
from airflow_provider_mssql_cdc.planning.windows import DataInterval
from airflow_provider_mssql_cdc.triggers.capture import PASSED, MssqlCdcCaptureTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
    from airflow_provider_mssql_cdc.jobs.task import Waiting

CAPTURE, DATA_INTERVAL_END = "capture", "data_interval_end"


class MssqlCdcChangesOperator(MssqlCdcOperator):
    """Append the changes after bronze's position, window by window, and move the position in each commit.

    Every run, scheduled, manual or backfilled, extends that one position. A run whose data interval has
    already been read is a repair: it replaces exactly the change rows of its interval. Runs may come in any
    order, repeatedly and at the same time.

    A run is skipped, with the reason, while bronze holds no snapshot that changes can continue. It returns
    ``{"event", "after", "until", "until_ts", "rows", "deletes", "inserts", "updates", "windows", "version",
    "notes"}``.

    :param table: the source table and its Delta tables. (templated)
    :param until: ``"capture"`` reads up to the LSN that capture has processed; ``"data_interval_end"`` reads
        up to the end of the run's data interval and waits, deferred, until capture has passed it. In a run
        without a data interval both are the same. (templated)
    :param start: ``"now"`` starts changes without a snapshot, at the LSN that capture has processed.
        (templated)
    :param max_commits: commits of the database per window; each window is one Delta commit, which stays when
        a later window fails. None lets the package choose.
    :param new_columns: ``"null"`` adds columns that bronze does not have, NULL in existing rows; None fails
        and names the options. (templated)
    :param quiet_seconds: seconds after which the position of a table without changes moves; earlier where
        they are more than a quarter of the time that changes are retained.
    :param wait_seconds: seconds that capture may take to pass the end of the data interval.
    :param poll_seconds: seconds between two checks of capture.
    :param deferrable: False waits on the worker.
    :param asset_events: emit an event on the bronze table's asset (``delta_asset(bronze)``), with
        ``{"lsn", "version", "rows"}``, when changes were committed. A cleared task emits the events of its
        run again.
    """

    template_fields: Sequence[str] = ("table", "until", "start", "new_columns")
    field_checks: ClassVar = {
        "until": one_of(CAPTURE, DATA_INTERVAL_END),
        "start": one_of(None, "now"),
        "max_commits": or_none(at_least(1)),
        "new_columns": one_of(None, "null"),
        "quiet_seconds": at_least(0),
        "wait_seconds": at_least(0),
        "poll_seconds": at_least(0),
        "deferrable": flag,
        "asset_events": flag,
    }

    def __init__(
        self,
        *,
        until: str = CAPTURE,
        start: str | None = None,
        max_commits: int | None = None,
        new_columns: str | None = None,
        quiet_seconds: int = 300,
        wait_seconds: int = 3600,
        poll_seconds: int = 30,
        deferrable: bool = True,
        asset_events: bool = True,
        **kwargs: Any,
    ) -> None:
        bronze = getattr(kwargs.get("table"), "bronze", "")
        super().__init__(**with_own_alias(kwargs, table=bronze, announced=asset_events))
        self.until = until
        self.start = start
        self.max_commits = max_commits
        self.new_columns = new_columns
        self.quiet_seconds = quiet_seconds
        self.wait_seconds = wait_seconds
        self.poll_seconds = poll_seconds
        self.deferrable = deferrable
        self.asset_events = asset_events
        self._deadline: datetime | None = None
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
        from airflow_provider_mssql_cdc.jobs.task import Skipped, Waiting

        self._refuse_wrong_arguments()  # again: templates are rendered now
        request = self._request(context)
        while isinstance(outcome := run_changes(request, connect=self.connect), Waiting):
            self._wait(outcome)
        if isinstance(outcome, Skipped):
            self.skip(outcome.reason)
        announce(
            context,
            self.outlets,
            table=canonical_uri(self.table.bronze),
            extra={"lsn": outcome.until.text, "version": outcome.version, "rows": outcome.counts.rows},
            changed=outcome.committed,
        )
        return outcome.to_xcom()

    def resume(self, context: Context, event: dict[str, Any]) -> Any:
        """Check capture again after a deferral; the deadline of the first check stays."""
        self._deadline = datetime.fromisoformat(event["deadline"])
        if event["status"] != PASSED:
            raise NotReadyYet(f"{self.table.label}: {event['reason']}")
        return self.execute(context)

    def _request(self, context: Context) -> ChangesRequest:
        from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest

        return ChangesRequest(
            table=self.table,
            attempt=attempt_of(context),
            interval=interval_of(context),
            to_interval_end=self.until == DATA_INTERVAL_END,
            start_now=self.start == "now",
            max_commits=self.max_commits,
            accept_nulls=self.new_columns == "null",
            quiet_seconds=self.quiet_seconds,
        )

    def _wait(self, waiting: Waiting) -> None:
        """Defer, or sleep on the worker, until capture has passed the end of the interval.

        :raises NotReadyYet: ``wait_seconds`` are over; the message names capture's position.
        """
        assert waiting.at is not None, "a run of changes waits for capture alone"
        now = datetime.now(UTC)
        self._deadline = self._deadline or now + timedelta(seconds=self.wait_seconds)
        if now >= self._deadline:
            raise NotReadyYet(
                f"{self.table.label}: capture must pass {waiting.at.isoformat()} within {self.wait_seconds} "
                "s: "
                f"{waiting.reason}"
            )
        if not self.deferrable:
            time.sleep(min(self.poll_seconds, (self._deadline - now).total_seconds()))
            return
        self.log.info("capture has not passed %s: %s", waiting.at.isoformat(), waiting.reason)
        self.defer(
            trigger=MssqlCdcCaptureTrigger(
                mssql_conn_id=self.table.mssql_conn_id,
                capture_instance=self.table.capture_instance,
                target=CaptureTarget(time=waiting.at).to_json(),
                deadline=self._deadline.isoformat(),
                poll_seconds=self.poll_seconds,
                source=None if self.table.source is None else list(self.table.source),
            ),
            method_name="resume",
        )


def interval_of(context: Context) -> DataInterval | None:
    """Return the run's data interval; None in a run without one (manual, by asset, partitioned)."""
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    return None if start is None or end is None else DataInterval(start, end)
