"""A running Airflow: api-server, scheduler, dag-processor and triggerer on loopback, driven by REST.

Everything goes through the REST API, as a person's clicks in the UI do.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from tests.scenarios.components import Components
from tests.scenarios.postgres import postgres
from tests.support.ports import free_port

READY_WITHIN_SECONDS = 180
COMMAND_TRIES = 5
PAGE = 100
DATABASE = "MSSQL_CDC_AIRFLOW_DB"
"""Names what Airflow keeps its own state in: sqlite, postgres, or auto (postgres where it is installed)."""
EXECUTABLE = Path(sys.executable).with_name("airflow")
ROOT = Path(__file__).resolve().parents[2]


def eventually(condition: Callable[[], Any], *, what: str, seconds: float = 600, every: float = 0.5) -> Any:
    """The first true answer of ``condition``; fails with ``what`` when there is none in time."""
    deadline = time.monotonic() + seconds
    while True:
        if answer := condition():
            return answer
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(every)


@dataclass
class RunningAirflow:
    """What a test does with a running Airflow; ``home`` holds its database, logs and settings."""

    home: Path
    port: int
    environment: dict[str, str]
    components: Components = field(init=False)
    token: str | None = None

    def __post_init__(self) -> None:
        self.components = Components(EXECUTABLE, self.home, self.environment)

    # -- REST ---------------------------------------------------------------------------------------

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """One call of the public API; the decoded answer. Raises HTTPError for 4xx and 5xx."""
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        data = None if body is None else json.dumps(body).encode()
        address = self.environment["AIRFLOW__API__BASE_URL"] + path
        request = Request(address, data=data, headers=headers, method=method)
        with urlopen(request, timeout=60) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def log_in(self) -> None:
        """As anybody, who is admin; as the user of the passwords file, where there is one."""
        if file := self.environment.get("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"):
            [(name, password)] = json.loads(Path(file).read_text()).items()
            user = {"username": name, "password": password}
            self.token = self.call("POST", "/auth/token", user)["access_token"]
        else:
            self.token = self.call("GET", "/auth/token")["access_token"]

    def healthy(self) -> bool:
        try:
            health = self.call("GET", "/api/v2/monitor/health")
        except (HTTPError, URLError, ConnectionError, TimeoutError):
            return False
        return all(
            health[part]["status"] == "healthy" for part in ("scheduler", "dag_processor", "triggerer")
        )

    # -- runs ---------------------------------------------------------------------------------------

    def known(self, dag_id: str) -> bool:
        try:
            self.call("GET", f"/api/v2/dags/{dag_id}")
        except HTTPError:
            return False
        return True

    def trigger(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Trigger a DAG by hand, without a logical date; the run's id."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        body = {"logical_date": None, "conf": dict(conf or {})}
        return str(self.call("POST", f"/api/v2/dags/{dag_id}/dagRuns", body)["dag_run_id"])

    def run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}")["state"])

    def wait_for_run(self, dag_id: str, run_id: str, *, seconds: float = 600) -> str:
        """Wait until a run has ended; its state."""

        def ended() -> str | None:
            state = self.run_state(dag_id, run_id)
            return state if state in {"success", "failed"} else None

        return str(eventually(ended, what=f"{dag_id} {run_id} ends", seconds=seconds, every=1))

    def tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """Every task instance of a run, page by page."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances?limit={PAGE}&order_by=id"
        found: list[dict[str, Any]] = []
        while True:
            page = self.call("GET", f"{path}&offset={len(found)}")["task_instances"]
            found += page
            if len(page) < PAGE:
                return found

    def task(self, dag_id: str, run_id: str, task_id: str, map_index: int = -1) -> dict[str, Any] | None:
        found = self.tasks(dag_id, run_id)
        wanted = (task_id, map_index)
        return next((task for task in found if (task["task_id"], task["map_index"]) == wanted), None)

    def returned(self, dag_id: str, run_id: str, task_id: str) -> Any:
        path = (
            f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/xcomEntries/return_value"
        )
        return self.call("GET", f"{path}?map_index=-1&deserialize=true")["value"]

    def clear(self, dag_id: str, run_id: str, task_ids: list[Any], *, downstream: bool = False) -> None:
        """Press "Clear" on tasks, or on mapped indexes given as ``[task_id, map_index]``."""
        body = {
            "dry_run": False,
            "dag_run_id": run_id,
            "task_ids": task_ids,
            "include_downstream": downstream,
            "only_failed": False,
            "reset_dag_runs": True,
        }
        self.call("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", body)

    def mark(self, dag_id: str, run_id: str, task_id: str, map_index: int, *, state: str = "success") -> None:
        """Set a task's state by hand, as "Mark success" does."""
        instance = f"taskInstances/{task_id}/{map_index}" if map_index >= 0 else f"taskInstances/{task_id}"
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/{instance}"
        self.call("PATCH", path, {"new_state": state})

    def log(self, dag_id: str, run_id: str, task_id: str, try_number: int, map_index: int = -1) -> str:
        """What a try of a task has logged."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{quote(run_id)}/taskInstances/{task_id}/logs/{try_number}"
        return json.dumps(self.call("GET", f"{path}?map_index={map_index}&full_content=true"))

    # -- backfills ----------------------------------------------------------------------------------

    def backfill(self, dag_id: str, start: str, end: str, *, reprocess: str = "none") -> None:
        """Press "Backfill" for the data intervals of some days."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        body = {
            "dag_id": dag_id,
            "from_date": start,
            "to_date": end,
            "max_active_runs": 3,
            "reprocess_behavior": reprocess,
            "dag_run_conf": {},
            "run_backwards": False,
        }
        self.call("POST", "/api/v2/backfills", body)

    def backfill_by_command(self, dag_id: str, start: str, end: str, *, reprocess: str = "none") -> None:
        """The same by the command line; again when SQLite, which takes few writers, had it fail."""
        self.call("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})
        command = [str(EXECUTABLE), "backfill", "create", "--dag-id", dag_id]
        command += ["--from-date", start, "--to-date", end, "--reprocess-behavior", reprocess]
        command += ["--max-active-runs", "3"]
        for _ in range(COMMAND_TRIES):
            done = subprocess.run(command, env=self.environment, check=False, capture_output=True, text=True)
            if done.returncode == 0:
                return
            assert "database is locked" in done.stderr, done.stdout[-2000:] + done.stderr[-2000:]
            self.wait_for_backfills(dag_id)
        raise AssertionError(f"{COMMAND_TRIES} times the database was locked")

    def wait_for_backfills(self, dag_id: str, *, seconds: float = 600) -> None:
        """Wait until Airflow says that every backfill of a DAG is over; until then it takes no other."""

        def over() -> bool:
            found = self.call("GET", f"/api/v2/backfills?dag_id={dag_id}")["backfills"]
            return all(backfill["completed_at"] for backfill in found)

        eventually(over, what=f"the backfills of {dag_id} are over", seconds=seconds, every=1)

    def runs(self, dag_id: str) -> dict[str, str]:
        """Every run of a DAG, with its state."""
        answer = self.call("GET", f"/api/v2/dags/{dag_id}/dagRuns?limit=100&order_by=-run_after")
        return {run["dag_run_id"]: run["state"] for run in answer["dag_runs"]}

    # -- processes ----------------------------------------------------------------------------------

    def process_of(self, task_instance_id: str, *, supervisor: bool) -> int | None:
        """The process that supervises a running task instance, or the one it forked for the task's code.

        The supervisor named itself after the instance; None when there is no such process now.
        """
        supervisors = dict(_processes_naming(task_instance_id, supervisors=True))
        if supervisor:
            return next(iter(supervisors), None)
        children = _processes_naming(task_instance_id, supervisors=False)
        return next((pid for pid, parent in children if parent in supervisors), None)

    def supervisor_of(self, task_instance_id: str) -> int:
        """As soon as there is one."""
        return self._awaited(task_instance_id, supervisor=True)

    def task_process_of(self, task_instance_id: str) -> int:
        """As soon as there is one."""
        return self._awaited(task_instance_id, supervisor=False)

    def _awaited(self, task_instance_id: str, *, supervisor: bool) -> int:
        what = f"a process of {task_instance_id}"
        return int(eventually(lambda: self.process_of(task_instance_id, supervisor=supervisor), what=what))


@contextmanager
def running_airflow(
    home: Path, dags: Path, variables: Mapping[str, str], *, port: int | None = None
) -> Iterator[RunningAirflow]:
    """Start all components over a fresh database; stops them, and what they started, at the end.

    :param variables: environment of every component, for instance ``AIRFLOW_CONN_ERP``.
    :param port: of the API server, where ``variables`` name it too; None takes a free one.
    """
    with _database(home) as url:
        port = port or free_port()
        environment = {**_environment(home, dags, port, url), **variables}
        yield from _running(RunningAirflow(home, port, environment))


@contextmanager
def _database(home: Path) -> Iterator[str]:
    """The URL of the database that ``MSSQL_CDC_AIRFLOW_DB`` asks for."""
    wanted = os.environ.get(DATABASE, "sqlite")
    assert wanted in {"sqlite", "postgres", "auto"}, f"{DATABASE}={wanted}: sqlite, postgres or auto"
    with postgres() if wanted != "sqlite" else contextlib.nullcontext() as url:
        assert url or wanted != "postgres", f"{DATABASE}=postgres: install Debian's package postgresql"
        yield url or f"sqlite:///{home}/airflow.db?timeout=60"


def _running(airflow: RunningAirflow) -> Iterator[RunningAirflow]:
    subprocess.run([EXECUTABLE, "db", "migrate"], env=airflow.environment, check=True, capture_output=True)
    airflow.components.start()
    try:
        eventually(airflow.healthy, what="Airflow is healthy", seconds=READY_WITHIN_SECONDS)
        airflow.log_in()
        yield airflow
    finally:
        airflow.components.stop()
        if airflow.components.restarts:
            print("started again:", *airflow.components.restarts)


def _environment(home: Path, dags: Path, port: int, database: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    return {
        **kept,
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(dags),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        # SQLite serves few writers: more slots than this end with "database is locked"
        "AIRFLOW__CORE__PARALLELISM": "4",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://127.0.0.1:{port}",
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a test's secret, sixty-four bytes or more, that lives for minutes",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": database,
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "20",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }


def _processes_naming(task_instance_id: str, *, supervisors: bool) -> Iterator[tuple[int, int]]:
    """(pid, parent's pid) of processes whose command line names the task instance.

    A supervisor's parent is the scheduler, a task's parent is a process that names the instance, too.
    """
    naming: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (parent := _parent_if_naming(entry, task_instance_id)) is not None:
            naming[int(entry.name)] = parent
    for pid, parent in naming.items():
        if (parent not in naming) == supervisors:
            yield pid, parent


def _parent_if_naming(entry: Path, text: str) -> int | None:
    try:
        if text.encode() not in (entry / "cmdline").read_bytes():
            return None
        return int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None
