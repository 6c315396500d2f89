"""The link "Facts" of every task in Airflow's UI."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from airflow.providers.common.compat.sdk import BaseOperatorLink, conf

from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.table import MssqlCdcTable, holds_template

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


class MssqlCdcFactsLink(BaseOperatorLink):
    """Link to the table's ``facts_url``; without one, to the task's XComs."""

    # Airflow calls get_link in the worker when a task ends, also when its templates could not be rendered:
    # a table that still holds a template has no facts to show.

    @property
    def name(self) -> str:
        return "Facts"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        from airflow_provider_mssql_cdc.jobs.facts import facts_url

        attempt = Attempt(
            dag_id=ti_key.dag_id,
            run_id=ti_key.run_id,
            task_id=ti_key.task_id,
            map_index=-1 if ti_key.map_index is None else ti_key.map_index,
        )
        table = getattr(operator, "table", None)
        if isinstance(table, MssqlCdcTable) and not _is_unrendered(table):
            return facts_url(table, attempt) or _returned(attempt)
        return _returned(attempt)


def _is_unrendered(table: MssqlCdcTable) -> bool:
    texts = (table.bronze, table.facts, table.facts_url or "")
    return any(holds_template(text) for text in texts)


def _returned(attempt: Attempt) -> str:
    """Return the URL of the task's XComs in Airflow's UI."""
    base = (conf.get("api", "base_url", fallback="") or "").rstrip("/")
    mapped = f"/mapped/{attempt.map_index}" if attempt.map_index >= 0 else ""
    run, task = quote(attempt.run_id, safe=""), quote(attempt.task_id, safe="")
    return f"{base}/dags/{quote(attempt.dag_id, safe='')}/runs/{run}/tasks/{task}{mapped}/xcom"
