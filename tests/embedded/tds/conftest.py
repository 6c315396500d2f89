"""A listener over the scripted engine, and both real drivers connected to it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.listener import Listener
from tests.embedded.tds.clients import Clients
from tests.embedded.tds.scripted import ScriptedEngine


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine()


@pytest.fixture
def listener(engine: ScriptedEngine) -> Iterator[Listener]:
    with Listener(engine) as listening:
        yield listening


@pytest.fixture
def clients(listener: Listener) -> Iterator[Clients]:
    """Both drivers, in the clear; what they open is closed with the test."""
    with Clients(listener.port) as opened:
        yield opened
    gc.collect()


@pytest.fixture(params=["pymssql", "mssql_python"])
def connect(request: pytest.FixtureRequest, clients: Clients) -> Callable[..., Any]:
    """Connect by one driver, then by the other."""
    return getattr(clients, request.param)  # type: ignore[no-any-return]
