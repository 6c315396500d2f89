"""Machines that run a Celery worker each: a folder, an environment and a session of separate processes.

A machine is given what docs/scaling.md says that a worker needs, and nothing else: it does not inherit the
environment of the tests, has no settings of Airflow's database, and shares no folder with another machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.scenarios.running_airflow import EXECUTABLE, eventually

SLOTS = 2
LEAVES_WITHIN_SECONDS = 300


class Machine:
    """``airflow celery worker`` under a name that Airflow shows as the host of what it ran.

    :param folder: is made, and holds all that this machine has: HOME, AIRFLOW_HOME, TMPDIR, the DAG files.
    :param dags: is copied into it.
    :param needed: what every worker has to know: the broker, the result backend, the execution API, the
        connections.
    """

    def __init__(self, name: str, folder: Path, dags: Path, needed: Mapping[str, str]) -> None:
        self.name, self.folder = name, folder
        for made in ("home", "airflow", "tmp", "python"):
            (folder / made).mkdir(parents=True)
        shutil.copytree(dags, folder / "dags")
        # By default a host is named by its domain name, which is one for all machines of this test.
        (folder / "python" / "this_machine.py").write_text(f"def name() -> str:\n    return {name!r}\n")
        self._environment = {
            **needed,
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(folder / "home"),
            "TMPDIR": str(folder / "tmp"),
            "PYTHONPATH": str(folder / "python"),
            "PYTHONWARNINGS": "ignore",
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
            "AIRFLOW__CORE__HOSTNAME_CALLABLE": "this_machine.name",
            "AIRFLOW__CELERY__WORKER_CONCURRENCY": str(SLOTS),
        }
        self._worker: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    def start(self) -> None:
        # Each would serve its logs on one and the same port.
        command = [str(EXECUTABLE), "celery", "worker", "--skip-serve-logs"]
        with self.log.open("ab") as log:
            self._worker = subprocess.Popen(
                [*command, "--celery-hostname", f"{self.name}@loopback"],
                env=self._environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        eventually(self._is_ready, what=f"the worker {self.name} takes tasks")

    def _is_ready(self) -> bool:
        assert self._worker is not None
        assert self._worker.poll() is None, self.log.read_text(errors="replace")[-5000:]
        return f"{self.name}@loopback ready" in self.log.read_text(errors="replace")

    def leave(self) -> None:
        """SIGTERM: the worker takes no more tasks, finishes those that it has, and ends."""
        if self._worker is not None:
            self._worker.terminate()
            self._worker.wait(LEAVES_WITHIN_SECONDS)
            self.destroy()

    def destroy(self) -> None:
        """All of its processes are killed at once, as by a power cut, and its disk is gone. Idempotent."""
        if self._worker is not None:
            for pid in _of_session(self._worker.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._worker.wait()
            self._worker = None
        if not os.environ.get("SCENARIO_KEEP_LOGS"):
            shutil.rmtree(self.folder, ignore_errors=True)


def _of_session(session: int) -> list[int]:
    """The processes of a session: a task has a process group of its own, so that a group is not enough."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if entry.name.isdigit() and _session_of(entry) == session:
                found.append(int(entry.name))
    return found


def _session_of(entry: Path) -> int:
    """The sixth field of ``stat``; the second, the name, may hold blanks (proc_pid_stat(5))."""
    return int((entry / "stat").read_text().rpartition(")")[2].split()[3])
