"""Arguments of the upkeep operator: wrong ones fail when the DAG is parsed, all at once."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import MssqlCdcUpkeepOperator

TABLE = MssqlCdcTable("erp", "dbo_orders", "/lake/bronze/orders", "/lake/facts")


def operator(**arguments: Any) -> MssqlCdcUpkeepOperator:
    given = {"task_id": "upkeep", "table": TABLE, "silver": "/lake/silver/orders"}
    return MssqlCdcUpkeepOperator(**(given | arguments))


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("silver", " "),
        ("silver", "/lake/facts"),
        ("silver", "/lake/bronze/orders"),
        ("compact", "yes"),
        ("fold", 1),
        ("fold_share", 1.5),
        ("fold_after_hours", -1),
        ("keep_changes_days", -1),
        ("vacuum", None),
        ("vacuum_hours", -1),
        ("vacuum_hours", 1.5),
        ("facts_keep_days", 0),
        ("table", "dbo_orders"),
    ],
)
def test_a_wrong_argument_fails_at_parse_time_and_is_named(argument: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=argument):
        operator(**{argument: value})


def test_a_fold_needs_the_silver_that_has_merged_what_leaves() -> None:
    with pytest.raises(ConfigurationError, match="fold=True needs silver="):
        operator(silver=None, fold=True)
    assert operator(silver=None).silver is None


def test_problems_are_told_together() -> None:
    with pytest.raises(ConfigurationError) as refused:
        operator(silver=None, fold=True, vacuum_hours=-1)
    assert "vacuum_hours" in str(refused.value)
    assert "fold=True" in str(refused.value)


def test_its_silver_is_templated() -> None:
    upkeep = operator(silver="/lake/{{ params.layer }}/orders")
    upkeep.render_template_fields({"params": {"layer": "silver"}})  # type: ignore[typeddict-item]
    assert upkeep.silver == "/lake/silver/orders"
