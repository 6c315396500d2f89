"""The tutorial's Python, block after block in one process, as a reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.test_docs import ROOT, blocks


def test_the_tutorial_runs_as_it_stands(tmp_path: Path) -> None:
    files: dict[str, list[str]] = {}
    for block in blocks((ROOT / "docs/tutorial.md").read_text(), "python"):
        files.setdefault(block.splitlines()[0].removeprefix("# "), []).append(block)
    assert sorted(files) == ["dags/orders_to_silver.py", "tutorial.py"]
    (tmp_path / "dags").mkdir()
    for name, parts in files.items():
        (tmp_path / name).write_text("\n".join(parts))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    environment |= {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(tmp_path / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    airflow = [sys.executable, "-m", "airflow"]
    status = [*airflow, "mssql-cdc", "status", "--facts", "lake/facts", "--json"]
    for command in ([*airflow, "db", "migrate"], [sys.executable, "tutorial.py"], status):
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert '"state": "following"' in done.stdout
