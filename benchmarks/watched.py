"""A running Airflow seen from outside: memory by kind of process, and how healthy it says it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.scenarios.running_airflow import RunningAirflow

PARTS = ("scheduler", "dag_processor", "triggerer")
HEARTBEAT = "latest_{}_heartbeat"
KB = 1024


@dataclass
class Watched:
    """The largest values of many looks.

    :param largest_mb: resident MB of the largest process of a kind.
    :param most_mb: MB of all processes together, each page counted once (PSS).
    :param unhealthy: looks that found a part unhealthy, or the api-server silent, by what it was.
    :param oldest_seconds: the oldest heartbeat of each part.
    """

    largest_mb: Counter[str] = field(default_factory=Counter)
    most_mb: int = 0
    most_processes: int = 0
    looks: int = 0
    unhealthy: Counter[str] = field(default_factory=Counter)
    oldest_seconds: dict[str, float] = field(default_factory=dict)

    def look(self, airflow: RunningAirflow) -> None:
        self.looks += 1
        self._look_at_health(airflow)
        processes = list(processes_of(airflow))
        for kind, resident, _ in processes:
            self.largest_mb[kind] = max(self.largest_mb[kind], resident)
        self.most_mb = max(self.most_mb, sum(shared for _, _, shared in processes))
        self.most_processes = max(self.most_processes, len(processes))

    def _look_at_health(self, airflow: RunningAirflow) -> None:
        try:
            health = airflow.call("GET", "/api/v2/monitor/health")
        except (OSError, ValueError) as exc:  # refused, too slow, 5xx, not JSON
            self.unhealthy[f"api-server: {type(exc).__name__}"] += 1
            return
        for part in PARTS:
            self._look_at_part(part, health[part])

    def _look_at_part(self, part: str, told: dict[str, Any]) -> None:
        if told["status"] != "healthy":
            self.unhealthy[part] += 1
        if beat := told.get(HEARTBEAT.format(part)):
            age = (datetime.now(UTC) - datetime.fromisoformat(beat)).total_seconds()
            self.oldest_seconds[part] = max(self.oldest_seconds.get(part, 0.0), age)

    def summary(self) -> str:
        """In one line, while it runs."""
        oldest = max(self.oldest_seconds.values(), default=0.0)
        return f"oldest heartbeat {oldest:.0f} s, unhealthy {self.unhealthy.total()} of {self.looks} looks"

    def lines(self) -> dict[str, str]:
        """For the report."""
        ages = ", ".join(f"{part}: {age:.1f}" for part, age in sorted(self.oldest_seconds.items()))
        unhealthy = ", ".join(f"{part}: {count}" for part, count in sorted(self.unhealthy.items()))
        sizes = {f"{kind}, resident MB": str(size) for kind, size in sorted(self.largest_mb.items())}
        return {
            "looks at Airflow's health": str(self.looks),
            "unhealthy looks": unhealthy or "0",
            "oldest heartbeat, seconds": ages,
            **sizes,
            "all processes of Airflow, MB": f"{self.most_mb} in at most {self.most_processes} processes",
        }


def processes_of(airflow: RunningAirflow) -> Iterator[tuple[str, int, int]]:
    """Kind, resident MB and proportional MB of each process that a component is or has started."""
    names = airflow.components.pids
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
            if session in names:
                own = int(entry.name) == session
                title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                memory = (entry / "smaps_rollup").read_text()
                kind = names[session] if own else _kind(names[session], title)
                yield kind, _megabytes(memory, "Rss:"), _megabytes(memory, "Pss:")
        except (OSError, IndexError):  # it has ended in the meantime
            continue


def _kind(component: str, title: str) -> str:
    """Airflow names its processes: an executor's slot, which becomes a task's supervisor, and the task."""
    if component != "scheduler":
        return f"a process of {component}"
    if "supervisor:" in title or "LocalExecutor" in title:
        return "executor's slot, task's supervisor"
    return "task" if title.startswith("airflow worker -- ") else "a process of scheduler"


def _megabytes(memory: str, name: str) -> int:
    return int(memory.partition(f"\n{name}")[2].split()[0]) // KB
