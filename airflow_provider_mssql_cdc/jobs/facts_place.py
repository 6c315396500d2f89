"""Where the facts of a table are seen by people, for the tasks' link."""

from __future__ import annotations

from urllib.parse import quote

from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.place import canonical_uri
from airflow_provider_mssql_cdc.table import MssqlCdcTable


def facts_url(table: MssqlCdcTable, attempt: Attempt) -> str | None:
    """The table's ``facts_url`` with this task's names in it; None where the table has none.

    ``target`` is spelled as the column of the facts is.
    """
    if table.facts_url is None:
        return None
    names = {
        "facts": canonical_uri(table.facts),
        "target": canonical_uri(table.bronze),
        "dag_id": attempt.dag_id,
        "run_id": attempt.run_id,
        "task_id": attempt.task_id,
        "map_index": str(attempt.map_index),
    }
    return table.facts_url.format_map({name: quote(value, safe="") for name, value in names.items()})
