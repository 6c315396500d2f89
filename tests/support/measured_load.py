"""Loads one table in a process that does nothing else, and prints the memory that its reads took.

``python -m tests.support.measured_load`` takes JSON on its input: ``connection`` (an Airflow connection),
``driver``, ``instance`` and ``folder``; it prints ``{"before", "peak"}`` in MiB and ``rows``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow.sdk import Connection

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.jobs.complete_snapshot import complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession


def main() -> None:
    asked = json.load(sys.stdin)
    fields = json.loads(asked["connection"])
    fields["extra"] = json.dumps({**fields["extra"], "mssql_cdc": {"driver": asked["driver"]}})
    settings = settings_of(Connection(conn_id="erp", **fields))
    table = MssqlCdcTable("erp", asked["instance"], f"{asked['folder']}/bronze", f"{asked['folder']}/facts")
    told = _measured(table, lambda: SourceSession(settings))
    print(json.dumps(told))


def _measured(table: MssqlCdcTable, connect: Any) -> dict[str, float]:
    attempt = Attempt("dag", "run", "task")
    planned = plan_snapshot(PlanRequest(table, attempt, 4, 1_000_000), connect=connect)
    before = _mebibytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins again
    staged = [read_range(table, item, attempt=attempt, connect=connect) for item in planned]
    peak = _mebibytes("VmHWM")
    completed = complete_snapshot(table, staged, attempt=attempt, connect=connect)
    return {"before": before, "peak": peak, "rows": completed.rows}


def _mebibytes(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
