"""What several machines need beyond the package's own environment, and how to install what is missing."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from tests.scenarios.postgres import programs


def redis_program() -> str | None:
    """redis-server: the one on PATH, or the one that a wheel put beside this interpreter."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("redis-server", path=os.pathsep.join((os.environ.get("PATH", os.defpath), beside)))


def missing() -> list[str]:
    """One line for each thing that is not there, with what installs it."""
    lines = []
    if find_spec("celery") is None or find_spec("airflow.providers.celery") is None:
        lines.append("apache-airflow-providers-celery: run `make distributed`, which installs it")
    if redis_program() is None:
        lines.append("redis-server: install Debian's package redis-server (on Python 3.13 no wheel has it)")
    if programs() is None:
        lines.append("PostgreSQL: install Debian's package postgresql")
    return lines
