"""An Airflow of its own for the tests: quick, quiet, in a folder that goes away with them.

Airflow reads its settings when it is first imported, so they are set here, above every import of it.
Tests of the pure layers never import Airflow and never wait for its database.
"""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_HOME = Path(tempfile.mkdtemp(prefix="mssql-cdc-airflow-"))
(_HOME / "dags").mkdir()

os.environ.update(
    {
        "AIRFLOW_HOME": str(_HOME),
        "AIRFLOW__CORE__DAGS_FOLDER": str(_HOME / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "True",
        # unit_test_mode turns this on, which hides the empty data intervals of production
        "AIRFLOW__SCHEDULER__CREATE_CRON_DATA_INTERVALS": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME}/airflow.db",
        # WARNING prints a traceback for each task that is retried deliberately
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
    }
)


def pytest_collection_finish() -> None:
    """Leave out of each later collection of garbage what the imports have made, which lives to the end.

    With all test modules imported a whole collection takes a second, and many tests ask for one.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def airflow_database() -> Path:
    """Airflow's metadata database, made once; for tests that run a DAG."""
    from airflow.utils.db import initdb

    initdb()
    return _HOME


@pytest.fixture(scope="session", autouse=True)
def _airflow_home_goes_away() -> Iterator[None]:
    owner = os.getpid()
    yield
    if os.getpid() == owner:
        shutil.rmtree(_HOME, ignore_errors=True)
