"""The processes of an Airflow; one that ends is started again, as a service manager would do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
LOOK_EVERY_SECONDS = 1.0
STOP_WITHIN_SECONDS = 10


class Components:
    """``airflow <component>`` of each, in a separate session with what it starts, and a log.

    A scheduler over SQLite ends sometimes: its database, which takes one writer, was locked for too long.
    """

    def __init__(self, executable: Path, home: Path, environment: Mapping[str, str]) -> None:
        self._executable, self._home, self._environment = executable, home, environment
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.restarts: list[str] = []
        """Which component was started again, each time."""

    @property
    def pids(self) -> dict[int, str]:
        """The process that leads each component's session, with the component's name."""
        return {process.pid: component for component, process in self._running.items()}

    def start(self) -> None:
        self._running = {component: self._start(component) for component in COMPONENTS}
        self._watcher.start()

    def _start(self, component: str) -> subprocess.Popen[bytes]:
        with (self._home / f"{component}.log").open("ab") as log:
            return subprocess.Popen(
                [self._executable, component],
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _watch(self) -> None:
        while not self._over.wait(LOOK_EVERY_SECONDS):
            for component, process in self._running.items():
                if process.poll() is not None and not self._over.is_set():
                    self.restarts.append(component)
                    self._running[component] = self._start(component)

    def stop(self) -> None:
        """All of them, and what they started."""
        self._over.set()
        self._watcher.join()
        for process in self._running.values():
            _signal_session(process, signal.SIGTERM)
        deadline = time.monotonic() + STOP_WITHIN_SECONDS
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
            _signal_session(process, signal.SIGKILL)
            process.wait()


def _signal_session(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
