"""Peak memory of a mapped read above what the process had before it, in a process that does nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.loads import Load, first_rows
from benchmarks.report import Row
from benchmarks.servers import Server

FLOOR_MIB, AIM_MIB = 300, 100
ROOT = Path(__file__).resolve().parents[1]
_STATUS = Path("/proc/self/status")
_CLEAR_PEAK = Path("/proc/self/clear_refs")


def run(server: Server, *, row_counts: list[int]) -> Iterator[Row]:
    """The same read for each number of rows: what it takes must not grow with them."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        for rows in row_counts:
            before, peak = _in_child(server, Path(folder, str(rows)), rows)
            yield Row(
                "memory",
                f"read and stage of {rows:,} rows",
                peak - before,
                "MiB",
                FLOOR_MIB,
                AIM_MIB,
                better="lower",
                note=f"peak {peak:,.0f} MiB, {before:,.0f} MiB before the read",
            )


def _in_child(server: Server, folder: Path, rows: int) -> tuple[float, float]:
    told = json.dumps({"server": server.to_json(), "folder": str(folder), "rows": rows})
    child = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory"],
        input=told,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    if child.returncode:
        raise RuntimeError(f"the measured process failed:\n{child.stderr}")
    before, peak = json.loads(child.stdout.splitlines()[-1])
    return before, peak


def _mebibytes(name: str) -> float:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"{_STATUS} has no {name}; peak memory is measured on Linux only")


def measured(told: str) -> tuple[float, float]:
    """Resident memory before the read, and its peak during it, in MiB.

    Before the read stands a plan by the same process: a mapped task's process has imported the same by
    the time it reads.
    """
    asked = json.loads(told)
    load = Load(Server.from_json(asked["server"]), Path(asked["folder"]))
    (planned,) = load.planned()
    before = _mebibytes("VmRSS")
    _CLEAR_PEAK.write_text("5")
    outcome = load.read(planned, first_rows(asked["rows"]))
    assert outcome.rows == asked["rows"]
    return before, _mebibytes("VmHWM")


if __name__ == "__main__":
    print(json.dumps(measured(sys.stdin.read())))
