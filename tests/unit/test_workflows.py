"""The workflow files run what is in this repository, under the rules that the changelog and version keep."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from airflow_provider_mssql_cdc import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps_of(path: Path) -> list[dict[str, Any]]:
    return [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_every_script_that_a_workflow_runs_is_here_and_executable(path: Path) -> None:
    scripts = [
        word for step in steps_of(path) for word in step.get("run", "").split() if word.startswith(".ci/")
    ]
    assert scripts
    for script in scripts:
        assert os.access(ROOT / script, os.X_OK), script


def test_a_release_takes_the_version_and_a_dated_entry_of_the_changelog() -> None:
    [check] = [step["run"] for step in steps_of(WORKFLOWS[-1]) if "changelog" in step.get("name", "")]
    pattern = re.search(r'grep -Eq "(.+)" CHANGELOG', check)
    assert pattern is not None
    heading = pattern[1].replace("$version", re.escape(__version__))
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    ours = [line for line in lines if line.startswith(f"## [{__version__}]")]
    assert len(ours) == 1
    dated = re.sub("unreleased$", "2026-01-31", ours[0])
    assert re.fullmatch(heading.removeprefix("^").removesuffix("$"), dated)
    assert not re.search(heading, f"## [{__version__}] - unreleased")


def test_only_the_job_that_publishes_may_ask_for_an_identity() -> None:
    for path in WORKFLOWS:
        workflow = yaml.safe_load(path.read_text())
        assert workflow["permissions"] == {"contents": "read"}
        asking = {name for name, job in workflow["jobs"].items() if "id-token" in job.get("permissions", {})}
        assert asking <= {"publish"}
