"""``MssqlCdcFreshnessSensor``: wait until tables are fresh, by their facts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowSensorTimeout, BaseSensorOperator

from airflow_provider_mssql_cdc.operators.freshness import FactsTask

if TYPE_CHECKING:
    from airflow.sdk import Context


class MssqlCdcFreshnessSensor(FactsTask, BaseSensorOperator):
    """Wait until no table is behind; fail after ``timeout`` seconds with those that are.

    Between two looks at the facts the task takes no worker: it is rescheduled. See
    :class:`~airflow_provider_mssql_cdc.operators.freshness.FactsTask` for the other parameters.

    :param timeout: seconds after which the task fails.
    :param poke_interval: seconds between two looks.
    """

    def __init__(self, *, timeout: float = 3600, poke_interval: float = 60, **kwargs: Any) -> None:
        super().__init__(timeout=timeout, poke_interval=poke_interval, **{"mode": "reschedule", **kwargs})
        self._behind: list[str] = []

    def run_job(self, context: Context) -> Any:
        try:
            return BaseSensorOperator.execute(self, context)
        except AirflowSensorTimeout as exc:
            raise AirflowSensorTimeout(f"{exc} {'; '.join(self._behind)}") from None

    def poke(self, context: Context) -> bool:
        """Look at the facts once."""
        self._behind = self.behind()
        for sentence in self._behind:
            self.log.info("%s", sentence)
        return not self._behind
