"""A facts row is signed by who writes it, and written unless it is there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from airflow_provider_mssql_cdc.lake.facts import write_facts
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.facts import FactsRow
from airflow_provider_mssql_cdc.table import MssqlCdcTable


def write_signed(
    table: MssqlCdcTable, row: FactsRow, *, attempt: Attempt, identifier: str, started_at: datetime | None
) -> bool:
    """Write the row with the attempt's name on it; False when a row of this identifier was there.

    :param started_at: of the work that the row tells of, which ends now; None leaves what the row says:
        the work was another attempt's, or is timed by whoever made the row.
    """
    signed = replace(
        row,
        dag_id=attempt.dag_id,
        run_id=attempt.run_id,
        task_id=attempt.task_id,
        map_index=attempt.map_index,
        try_number=attempt.try_number,
    )
    if started_at is not None:
        elapsed = datetime.now(UTC) - started_at
        signed = replace(signed, started_at=started_at, duration_ms=round(elapsed.total_seconds() * 1000))
    return write_facts(TableLocation.facts_of(table), signed, identifier=identifier)
