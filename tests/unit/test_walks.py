"""How many modules of the package a reader opens to follow one task from its call to its commit."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import airflow_provider_mssql_cdc
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.merge_silver import MergeOrder, merge_silver
from airflow_provider_mssql_cdc.model.plan import Attempt
from tests.support.chunked import ChunkedLoad

PACKAGE = Path(airflow_provider_mssql_cdc.__file__).parent

MOST_MODULES = {"read": 46, "wave": 60, "window": 56, "merge": 29}


@contextmanager
def opened() -> Iterator[set[str]]:
    """The product's modules of which a function runs, on any thread that begins in here."""
    seen: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        file = Path(frame.f_code.co_filename)
        if event == "call" and frame.f_code.co_name != "<module>" and file.is_relative_to(PACKAGE):
            seen.add(str(file.relative_to(PACKAGE)))

    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    seen -= {name for name in seen if name.startswith("embedded")}


@pytest.fixture
def load(tmp_path: Path) -> Iterator[ChunkedLoad]:
    """``dbo.orders`` with 200 rows, older than its CDC."""
    with EmbeddedSqlServer(database="shop") as server:
        server.execute("CREATE TABLE dbo.orders (id bigint NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
        server.execute(f"INSERT INTO dbo.orders (id) VALUES {', '.join(f'({id})' for id in range(200))}")
        server.enable_cdc("dbo.orders")
        yield ChunkedLoad(server, tmp_path, instance="dbo_orders")


def merged(load: ChunkedLoad, folder: Path) -> None:
    order = MergeOrder(load.table, str(folder / "silver"), Attempt("dag", "run", "merge"))
    merge_silver(order, connect=load.connect)


def read(load: ChunkedLoad, _folder: Path) -> Callable[[], Any]:
    planned = load.plan()
    return lambda: load.read(planned[0])


def wave(load: ChunkedLoad, _folder: Path) -> Callable[[], Any]:
    planned = load.planned()
    return lambda: load.chunk(planned[0])


def window(load: ChunkedLoad, _folder: Path) -> Callable[[], Any]:
    load.all()
    load.server.execute("UPDATE dbo.orders SET name = 'y' WHERE id < 10")
    return load.changes


def merge(load: ChunkedLoad, folder: Path) -> Callable[[], Any]:
    window(load, folder)
    merged(load, folder)
    load.changes()
    return lambda: merged(load, folder)


@pytest.mark.parametrize("walk", [read, wave, window, merge], ids=lambda walk: walk.__name__)
def test_a_task_is_followed_in_few_modules(walk: Any, load: ChunkedLoad, tmp_path: Path) -> None:
    task = walk(load, tmp_path)
    with opened() as modules:
        task()
    listed = "\n".join(sorted(modules))
    assert len(modules) <= MOST_MODULES[walk.__name__], f"{len(modules)} modules run:\n{listed}"
