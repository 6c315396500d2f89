"""The link "Facts": the place that the table names, else the task's own XComs; never a template."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.operators import MssqlCdcPlanOperator
from airflow_provider_mssql_cdc.operators.links import MssqlCdcFactsLink


@dataclass
class Key:
    """What Airflow tells of a task instance."""

    dag_id: str = "load"
    run_id: str = "manual__2026-05-11T00:00:00+00:00"
    task_id: str = "orders.read"
    map_index: int | None = -1


def link_of(key: Key | None = None, **arguments: str) -> str:
    given = {"bronze": "/lake//bronze/orders/", "facts": "s3a://lake/ops/facts", **arguments}
    table = MssqlCdcTable(mssql_conn_id="erp", capture_instance="dbo_orders", **given)  # type: ignore[arg-type]
    return MssqlCdcFactsLink().get_link(
        MssqlCdcPlanOperator(task_id="plan", table=table),
        ti_key=key or Key(),  # type: ignore[arg-type]
    )


def test_the_names_of_the_task_and_the_places_of_the_table_are_filled_in_and_encoded() -> None:
    url = "https://bi/facts?of={target}&in={facts}&dag={dag_id}&run={run_id}&task={task_id}&n={map_index}"
    assert link_of(Key(map_index=3), facts_url=url) == (
        "https://bi/facts?of=%2Flake%2Fbronze%2Forders&in=s3%3A%2F%2Flake%2Fops%2Ffacts&dag=load"
        "&run=manual__2026-05-11T00%3A00%3A00%2B00%3A00&task=orders.read&n=3"
    )


@pytest.mark.parametrize(
    ("index", "end"), [(None, "/tasks/orders.read/xcom"), (3, "/tasks/orders.read/mapped/3/xcom")]
)
def test_without_a_place_it_leads_to_what_the_task_returned(index: int | None, end: str) -> None:
    run = "/dags/load/runs/manual__2026-05-11T00%3A00%3A00%2B00%3A00"
    assert link_of(Key(map_index=index)).endswith(run + end)


@pytest.mark.parametrize(
    "unrendered",
    [
        {"bronze": "/lake/{{ var.value.missing }}", "facts_url": "https://bi/{target}"},
        {"facts": "/lake/{{ var.value.missing }}", "facts_url": "https://bi/{facts}"},
        {"facts_url": "https://bi/{{ var.value.missing }}"},
    ],
)
def test_a_template_that_was_not_rendered_is_never_part_of_it(unrendered: dict[str, str]) -> None:
    link = link_of(**unrendered)
    assert "{" not in link
    assert link.endswith("/xcom")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://bi/{target}", "http or https"),
        ("/ops/facts", "http or https"),
        ("javascript:alert(1)", "http or https"),
        ("https://me:secret@bi/{target}", "must not hold credentials"),
        ("https://bi/{table}", "only the names .*, got table|names of"),
        ("https://bi/{target", "must be a format string"),
        ("https://bi/{}", "must be a format string"),
        ("https://bi/{target.__class__}", "only the names"),
    ],
)
def test_a_place_that_cannot_be_a_link_is_refused_when_the_dag_is_parsed(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        link_of(facts_url=url)
