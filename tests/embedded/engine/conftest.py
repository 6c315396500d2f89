"""An engine of its own for each test: a database named shop, and sa's session in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Engine, Session
from airflow_provider_mssql_cdc.embedded.seam import SqlError


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(password="secret")
    made.create_database("shop")
    yield made
    made.close()


@pytest.fixture
def session(engine: Engine) -> Session:
    return engine.login("sa", "secret", "shop")


@pytest.fixture
def other(engine: Engine) -> Session:
    return engine.login("sa", "secret", "shop")


@pytest.fixture
def error_of() -> Any:
    """The number of the error that a batch ends with."""

    def run(session: Session, sql: str, *values: Any) -> int:
        with pytest.raises(SqlError) as caught:
            session.rows(sql, *values)
        return caught.value.number

    return run
