"""``python -m benchmarks``: measure, and print one table.

On the embedded server, in a separate process, or on the server of ``MSSQL_CDC_TEST_CONN`` (an Airflow
connection as JSON or URI, with a login that may create a database); a database is made and dropped.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks import changes, complete, memory, planning, read, report, today
from benchmarks.servers import Server, measured_server
from benchmarks.tables import ROWS_AT_ONCE, make_numbers, make_orders

FILES = 1000
MEMORY_FACTOR = 4
MILLION = 1_000_000
ON_THE_SERVER = ("read", "memory", "today", "complete", "planning", "changes")
ON_THE_LAKE = ("merge", "chunked")
"""Modules that need no server of ours: ``run(scale)`` gives rows; scale 1 is a million rows."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", type=int, default=MILLION, help="rows of ten columns (default 1e6)")
    parser.add_argument("--repeats", type=int, default=5, help="counted runs of each side (default 5)")
    parser.add_argument(
        "--parts",
        default=",".join(ON_THE_SERVER + ON_THE_LAKE),
        help="which to run, by comma (default all that exist)",
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the parts that were asked for, say on standard error how far it is, print the table."""
    options = parse_arguments(arguments)
    logging.disable(logging.INFO)
    parts = options.parts.split(",")
    if unknown := set(parts) - {*ON_THE_SERVER, *ON_THE_LAKE}:
        sys.exit(f"no such part: {', '.join(sorted(unknown))}")
    rows: list[report.Row] = []
    try:
        for row in _measured(parts, rows=options.rows, repeats=options.repeats):
            rows.append(row)  # noqa: PERF402 - what was measured before a failure is printed, too
    finally:
        print(report.table(rows))
    return 0


def _measured(parts: Sequence[str], *, rows: int, repeats: int) -> Iterator[report.Row]:
    if any(part in ON_THE_SERVER for part in parts):
        with measured_server() as server:
            print(_conditions(server, rows))
            yield from _on_the_server(server, parts, rows=rows, repeats=repeats)
    for name in ON_THE_LAKE:
        if name in parts and importlib.util.find_spec(f"benchmarks.{name}"):
            _say(name)
            yield from importlib.import_module(f"benchmarks.{name}").run(rows / MILLION)


def _on_the_server(server: Server, parts: Sequence[str], *, rows: int, repeats: int) -> Iterator[report.Row]:
    most = rows * MEMORY_FACTOR if "memory" in parts else rows
    _say(f"{most:,} rows")
    make_numbers(server, max(rows, min(most, ROWS_AT_ONCE)))
    make_orders(server, most)
    runs: dict[str, Callable[[], Iterator[report.Row]]] = {
        "read": lambda: read.run(server, rows=rows, repeats=repeats),
        "memory": lambda: memory.run(server, row_counts=[rows, most]),
        "today": lambda: today.run(server, rows=rows, repeats=max(1, repeats // 2)),
        "complete": lambda: complete.run(
            server, files=min(FILES, max(1, rows // 10)), repeats=max(1, repeats // 2)
        ),
        "planning": lambda: planning.run(server, rows=rows),
        "changes": lambda: changes.run(server, rows=rows // 4, repeats=repeats),
    }
    for name in ON_THE_SERVER:
        if name in parts:
            _say(name)
            yield from runs[name]()


def _conditions(server: Server, rows: int) -> str:
    cdc = "" if server.no_cdc is None else "; it has no CDC, so reads are staged without the jobs"
    drivers = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("mssql-python", "pymssql"))
    return (
        f"{rows:,} rows of ten columns, {server.name} server{cdc}; {os.cpu_count()} processors, load "
        f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, {drivers}"
    )


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
