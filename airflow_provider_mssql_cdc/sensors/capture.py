"""``MssqlCdcCaptureSensor``: wait until capture has passed an LSN, a time, or a snapshot's horizon."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowFailException, AirflowSensorTimeout, BaseSensorOperator

from airflow_provider_mssql_cdc.errors import ConfigurationError, RetryableError
from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator, as_lsn, flag, is_known_later
from airflow_provider_mssql_cdc.triggers.capture import FAILED, LATE, MssqlCdcCaptureTrigger

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_provider_mssql_cdc.jobs.status import CaptureAnswer


class MssqlCdcCaptureSensor(MssqlCdcOperator, BaseSensorOperator):
    """Wait until capture has passed an LSN, a time or a horizon; fail after ``timeout`` seconds.

    The failure names the reason: the capture job looks stopped, or this login may not see it. By default
    the task is deferred and takes no worker slot. It returns the LSN at which capture had passed.

    :param table: the source table and its Delta tables. (templated)
    :param lsn: wait for this LSN, ``0x`` and 20 hex digits. (templated)
    :param time: wait until every commit before this instant is captured, for instance
        ``"{{ data_interval_end }}"``. (templated)
    :param consistent_after: wait for the horizon of a snapshot: the result of ``complete``, or its
        ``consistent_after``; there is no wait when that is None. (templated)
    :param timeout: seconds after which the task fails.
    :param poke_interval: seconds between two checks of the server.
    :param deferrable: False keeps the task on a worker, in ``mode`` "poke" or "reschedule".
    """

    template_fields: Sequence[str] = ("table", "lsn", "time", "consistent_after")
    field_checks: ClassVar = {"deferrable": flag}

    def __init__(
        self,
        *,
        lsn: str | None = None,
        time: datetime | str | None = None,
        consistent_after: Any = None,
        timeout: float = 3600,
        poke_interval: float = 30,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout=timeout, poke_interval=poke_interval, **kwargs)
        self.lsn = lsn
        self.time = time
        self.consistent_after = consistent_after
        self.deferrable = deferrable
        self._reason = ""
        self._refuse_wrong_arguments()

    def _problems_together(self) -> list[str]:
        """Check targets that are given as plain values, not as templates or outputs of other tasks."""
        given = {"lsn": self.lsn, "time": self.time, "consistent_after": self.consistent_after}
        named = {name: value for name, value in given.items() if value is not None}
        if any(map(is_known_later, named.values())):
            return []
        if len(named) != 1:
            found = ", ".join(named) or "none"
            return [f"exactly one of lsn, time and consistent_after must be given, got {found}"]
        try:
            if not self._waits_for_nothing():
                self._target()
        except ConfigurationError as exc:
            return [str(exc)]
        return []

    def run_job(self, context: Context) -> str | None:
        if self._waits_for_nothing():
            self.log.info("no wait: the snapshot has no horizon")
            return None
        if self.deferrable:
            return self._look_and_defer()
        try:
            BaseSensorOperator.execute(self, context)
        except AirflowSensorTimeout as exc:
            raise AirflowSensorTimeout(f"{exc} {self._reason}") from None
        return self._reached

    def poke(self, context: Context) -> bool:
        """Check capture once; a retryable error counts as not passed."""
        try:
            answer = self._look()
        except RetryableError as exc:
            self._reason = f"{type(exc).__name__}: {exc}"
            return False
        self._reason = answer.reason
        self._reached = None if answer.passed is None else answer.passed.text
        return answer.passed is not None

    def resume(self, context: Context, event: dict[str, Any]) -> str | None:
        """Return the LSN of the trigger's event, or fail with its reason."""
        if event["status"] == LATE:
            raise AirflowSensorTimeout(f"after {self.timeout:.0f} s: {event['reason']}")
        if event["status"] == FAILED:
            raise AirflowFailException(event["reason"])
        passed: str | None = event["lsn"]
        return passed

    _reached: str | None = None

    def _waits_for_nothing(self) -> bool:
        given = self.consistent_after
        if self.lsn is not None or self.time is not None:
            return False
        return isinstance(given, dict) and "consistent_after" in given and given["consistent_after"] is None

    def _target(self) -> CaptureTarget:
        return CaptureTarget.of(lsn=as_lsn(self.lsn), time=self.time, consistent_after=self.consistent_after)

    def _look(self) -> CaptureAnswer:
        from airflow_provider_mssql_cdc.jobs.status import look_at_capture

        with self.connect() as session:
            return look_at_capture(
                session,
                self._target(),
                capture_instance=self.table.capture_instance,
                source=self.table.source,
            )

    def _look_and_defer(self) -> str | None:
        answer = self._look()
        if answer.passed is not None:
            return answer.passed.text
        deadline = datetime.now(UTC) + timedelta(seconds=self.timeout)
        self.defer(
            trigger=MssqlCdcCaptureTrigger(
                mssql_conn_id=self.table.mssql_conn_id,
                capture_instance=self.table.capture_instance,
                target=self._target().to_json(),
                deadline=deadline.isoformat(),
                poll_seconds=self.poke_interval,
                source=None if self.table.source is None else list(self.table.source),
            ),
            method_name="resume",
        )
        raise AssertionError("unreachable: defer raises")
