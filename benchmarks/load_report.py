"""What ``python -m benchmarks.load`` says of a load: its tasks, the tables it left, and Airflow meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from deltalake import DeltaTable

from benchmarks.watched import Watched
from tests.support.delta_rows import delta_rows


@dataclass(frozen=True, slots=True)
class Load:
    """So many tables of so many rows, each in so many ranges."""

    tables: int
    ranges: int
    rows: int

    @property
    def tasks(self) -> int:
        """Plan and complete beside the ranges."""
        return self.tables * (self.ranges + 2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a load took, what was seen of Airflow meanwhile, and its task instances as the API gives them.

    :param database: what Airflow's own state is in.
    """

    database: str
    seconds: float
    watched: Watched
    runs: dict[str, str]
    tasks: list[dict[str, Any]]


def report(lake: Path, load: Load, outcome: Outcome) -> bool:
    """Print it; whether every table is there, whole and once."""
    bronzes = [lake / "bronze" / f"t{number}" for number in range(load.tables)]
    whole = sum(_is_whole(bronze, load.rows) for bronze in bronzes)
    states = Counter(task["state"] for task in outcome.tasks)
    lines = {
        "Airflow's own state in": outcome.database,
        "tables, ranges of each, rows of each": f"{load.tables}, {load.ranges}, {load.rows}",
        "tables that are whole": f"{whole} of {load.tables}",
        **_of_tasks(outcome, states),
        **_of_the_lake(lake, bronzes),
        **outcome.watched.lines(),
    }
    print("| | |\n|---|---|")
    for name, value in lines.items():
        print(f"| {name} | {value} |")
    ended = {*states, *outcome.runs.values()}
    return whole == load.tables and ended == {"success"}


def _is_whole(bronze: Path, rows: int) -> bool:
    if not DeltaTable.is_deltatable(str(bronze)):
        return False
    return sorted(row["id"] for row in delta_rows(bronze, columns="id")) == list(range(rows))


def _of_tasks(outcome: Outcome, states: Counter[str]) -> dict[str, str]:
    tasks, seconds = outcome.tasks, outcome.seconds
    durations: dict[str, list[float]] = {}
    for task in tasks:
        durations.setdefault(task["operator_name"], []).append(task["duration"] or 0.0)
    return {
        "runs by state": _told(Counter(outcome.runs.values())),
        "task instances by state": _told(states),
        "tries beyond the first": str(sum(max(0, task["try_number"] - 1) for task in tasks)),
        "seconds in all, per task": f"{seconds:.0f}, {seconds / len(tasks):.2f}",
        "median seconds of a task": _told({name: f"{median(of):.1f}" for name, of in durations.items()}),
    }


def _of_the_lake(lake: Path, bronzes: list[Path]) -> dict[str, str]:
    commits = Counter(
        DeltaTable(str(bronze)).version() + 1 for bronze in bronzes if DeltaTable.is_deltatable(str(bronze))
    )
    facts = DeltaTable(str(lake / "ops" / "facts"))
    events = Counter(row["event"] for row in delta_rows(facts.table_uri, columns="event"))
    files = [Path(file.removeprefix("file://")) for file in facts.file_uris()]
    log = list((lake / "ops" / "facts" / "_delta_log").iterdir())
    return {
        "commits of a bronze: how many bronzes": _told(commits),
        "facts rows": f"{events.total()}: {_told(events)}",
        "facts commits": str(facts.version() + 1),
        "facts files": f"{len(files)}, {sum(file.stat().st_size for file in files):,} bytes",
        "facts log": f"{len(log)} files, {sum(file.stat().st_size for file in log):,} bytes",
    }


def _told(values: Mapping[Any, Any]) -> str:
    return ", ".join(f"{name}: {value}" for name, value in sorted(values.items()))
