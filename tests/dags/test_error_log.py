"""What the log of a failed task ends with: what to do, once, behind no frames of ours."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, errors
from airflow_provider_mssql_cdc.operators._base import MssqlCdcOperator
from tests.dags.harness import run, states

pytestmark = pytest.mark.usefixtures("airflow_database")

MakeTable = Callable[..., MssqlCdcTable]
REMEDY = "GRANT SELECT ON [dbo].[orders] TO [loader]"
REASONS: dict[str, tuple[type[Exception], str]] = {
    "permanent": (errors.PermissionDenied, f"dbo_orders: {REMEDY}"),
    "retryable": (errors.NotReadyYet, f"dbo_orders: {REMEDY}"),
    "store": (OSError, f"no such bucket: {REMEDY}"),
}


class FailsDeep(MssqlCdcOperator):
    """Fails some calls below the operator, for a reason that has causes of its own."""

    def run_job(self, context: Any) -> None:
        self.below(20)

    def below(self, calls: int) -> None:
        if calls:
            return self.below(calls - 1)
        try:
            raise ValueError("the driver's own words")
        except ValueError as exc:
            error, message = REASONS[self.task_id]
            raise error(message) from exc


@pytest.mark.parametrize("reason", REASONS)
def test_the_remedy_is_logged_once_and_behind_no_frames_of_ours(
    make_table: MakeTable, capfd: pytest.CaptureFixture[str], reason: str
) -> None:
    with DAG(dag_id=f"fails_{reason}", schedule=None) as dag:
        FailsDeep(task_id=reason, table=make_table())
    dag_run = run(dag)
    assert states(dag_run)[reason, -1] == "failed"
    told = "".join(capfd.readouterr())
    _, found, trace = told.partition("Task failed with exception")
    assert found
    assert "in execute" in trace
    assert ("in below" in trace, "the driver's own words" in trace) == (False, False)
    assert told.count(REMEDY) == 1


def test_the_frames_and_the_causes_are_logged_at_debug(
    make_table: MakeTable, caplog: pytest.LogCaptureFixture
) -> None:
    operator = FailsDeep(task_id="retryable", table=make_table())
    with caplog.at_level(logging.DEBUG), pytest.raises(errors.NotReadyYet) as raised:
        operator.execute({})  # type: ignore[arg-type]
    assert raised.value.__cause__ is None
    assert "traceback of the failed task" in caplog.text
    assert "in below" in caplog.text
    assert "the driver's own words" in caplog.text
