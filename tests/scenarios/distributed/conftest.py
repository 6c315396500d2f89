"""One database, one lake on an S3 API, one Airflow whose tasks are run by Celery workers elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.scenarios.conftest import Server
from tests.scenarios.distributed import erp
from tests.scenarios.distributed.machines import Machine
from tests.scenarios.distributed.needs import missing
from tests.scenarios.distributed.redis_server import redis_server
from tests.scenarios.running_airflow import DATABASE, RunningAirflow, eventually, running_airflow
from tests.support.s3_api import airflow_connection, make_bucket, s3_api
from tests.support.server_process import server_process

DAGS = Path(__file__).with_name("dags")
AS_CELERY_NEEDS_IT = {
    "AIRFLOW__CORE__EXECUTOR": "CeleryExecutor",
    "AIRFLOW__CORE__PARALLELISM": "8",
    # A machine that is gone is noticed by its tasks' heartbeats; five minutes as Airflow has it. Busy
    # processors must not take a slow task for a lost one.
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "40",
    # A task that a machine had fetched from the queue, and not begun, when it was gone stays "queued".
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT": "120",
    "AIRFLOW__SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "15",
}


@pytest.fixture(scope="session", autouse=True)
def _all_is_installed() -> None:
    if lines := missing():
        pytest.fail("not installed, and needed here:\n  " + "\n  ".join(lines), pytrace=False)


@pytest.fixture(scope="session")
def endpoint(_all_is_installed: None) -> Iterator[str]:
    with s3_api() as running:
        make_bucket(running, "lake")
        yield running


@pytest.fixture(scope="session")
def source(_all_is_installed: None) -> Iterator[Server]:
    """The tables' server, whose tables are older than CDC."""
    with server_process("--database", "erp") as connection:
        server = Server(connection)
        server.execute("EXEC sys.sp_cdc_enable_db")
        for table in erp.TABLES:
            erp.create(server, table)
        yield server


@pytest.fixture(scope="session")
def broker(_all_is_installed: None) -> Iterator[str]:
    with redis_server() as url:
        yield url


@pytest.fixture(scope="session")
def connections(source: Server, endpoint: str) -> dict[str, str]:
    """What tasks ask for; a deployment keeps them in a secrets backend that every worker reaches."""
    return {"AIRFLOW_CONN_ERP": source.connection, "AIRFLOW_CONN_S3": airflow_connection(endpoint)}


@pytest.fixture(scope="session")
def central(broker: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAirflow]:
    """All of Airflow but its workers, with a copy of the DAG files of its own; it knows no connection."""
    home = tmp_path_factory.mktemp("central")
    dags = Path(shutil.copytree(DAGS, home / "dags"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(DATABASE, "postgres")
        with running_airflow(
            home, dags, {**AS_CELERY_NEEDS_IT, "AIRFLOW__CELERY__BROKER_URL": broker}
        ) as all_of_it:
            for dag_id in ("erp_load", "erp_follow"):
                eventually(lambda dag_id=dag_id: all_of_it.known(dag_id), what=f"{dag_id} is parsed")
            yield all_of_it


@pytest.fixture
def machine(
    central: RunningAirflow, broker: str, connections: dict[str, str], tmp_path: Path
) -> Iterator[Callable[[str], Machine]]:
    """Make a machine of a name; all of them are gone at the end."""
    known = central.environment
    needed = {
        "AIRFLOW__CORE__EXECUTOR": known["AIRFLOW__CORE__EXECUTOR"],
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": known["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"],
        "AIRFLOW__CELERY__BROKER_URL": broker,
        "AIRFLOW__CELERY__RESULT_BACKEND": "db+" + known["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"],
        **connections,
    }
    made: list[Machine] = []

    def make(name: str) -> Machine:
        made.append(Machine(name, tmp_path / name, DAGS, needed))
        made[-1].start()
        return made[-1]

    yield make
    for one in made:
        one.destroy()
