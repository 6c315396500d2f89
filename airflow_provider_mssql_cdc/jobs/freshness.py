"""Which tables of a facts table are behind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from airflow_provider_mssql_cdc.lake.read_facts import StoredFacts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.planning.freshness import Freshness
from airflow_provider_mssql_cdc.planning.overview import overviews


def tables_behind(facts: str, storage_options: Mapping[str, str] | None, wanted: Freshness) -> list[str]:
    """One sentence for each table that is not as fresh as wanted.

    :param facts: path or URI of the facts table.
    :raises ConfigurationError: there is no facts table.
    """
    stored = StoredFacts(TableLocation(facts, storage_options))
    return wanted.problems(overviews(stored.newest(), stored.waves_landed()), datetime.now(UTC))
