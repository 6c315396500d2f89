"""The benchmarks run to their end on few rows; what they measure is not judged here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql.statement import Statement
from benchmarks.report import Row, table
from tests.contract.target import VARIABLE, parsed
from tests.support.server_process import server_process

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("read", "memory", "today", "complete", "planning", "changes")


@contextmanager
def named_server_without_cdc() -> Iterator[str]:
    """A server that the environment could name, where CDC cannot be enabled."""
    with server_process() as connection:
        with SourceSession(settings_of(parsed(connection))) as session:
            session.execute(
                Statement(
                    "EXEC embedded.fault @action = 'fail', @pattern = 'sp_cdc_enable_db', @number = 22830, "
                    "@times = 0"
                )
            )
        yield connection


def printed_by_a_run(*parts: str, named: str = "") -> str:
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--rows", "400", "--repeats", "1", "--parts", ",".join(parts)],
        env={**os.environ, VARIABLE: named},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


def parts_of(printed: str) -> set[str]:
    return {line.split()[0] for line in printed.splitlines() if line} & set(PARTS)


def test_a_run_on_the_embedded_server_measures_every_part() -> None:
    assert parts_of(printed_by_a_run(*PARTS)) == set(PARTS)


def test_a_run_on_a_server_without_cdc_reads_stages_and_commits() -> None:
    with named_server_without_cdc() as connection:
        printed = printed_by_a_run("read", "complete", named=connection)
    assert "no CDC" in printed
    assert parts_of(printed) == {"read", "complete"}
    assert json.loads(connection)["password"] not in printed


@pytest.mark.parametrize(
    ("value", "floor", "aim", "better", "verdict"),
    [
        (0.95, 0.5, 0.9, "higher", "aim"),
        (0.6, 0.5, 0.9, "higher", "floor"),
        (0.4, 0.5, 0.9, "higher", "BELOW FLOOR"),
        (1.4, 2.5, 1.5, "lower", "aim"),
        (3.0, 2.5, 1.5, "lower", "BELOW FLOOR"),
        (1.2, 1.5, None, "lower", "yes"),
        (7.0, None, None, "higher", ""),
    ],
)
def test_a_figure_is_put_beside_its_floor_and_its_aim(
    value: float, floor: float | None, aim: float | None, better: str, verdict: str
) -> None:
    row = Row("read", "something", value, "x", floor, aim, better)  # type: ignore[arg-type]
    assert row.verdict == verdict
    assert verdict in table([row])
