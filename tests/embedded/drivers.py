"""Connections to an embedded server by both real drivers, for tests."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

DRIVERS = ("pymssql", "mssql-python")


def connect(driver: str, connection: str, *, autocommit: bool = True, timeout: int = 0) -> Any:
    """A DB-API connection from an Airflow connection's JSON."""
    at = json.loads(connection)
    encrypted = at["extra"]["encryption"]
    if driver == "pymssql":
        module = pytest.importorskip("pymssql")
        return module.connect(
            server=at["host"],
            port=str(at["port"]),
            user=at["login"],
            password=at["password"],
            database=at["schema"],
            encryption=encrypted,
            autocommit=autocommit,
            timeout=timeout,
        )
    module = pytest.importorskip("mssql_python")
    module.pooling(enabled=False)  # a pooled connection is not a new login
    encrypt = {"off": "no", "request": "no", "require": "yes"}[encrypted]
    connection = module.connect(
        f"Server=tcp:{at['host']},{at['port']};Database={at['schema']};UID={at['login']};"
        f"PWD={{{at['password']}}};Encrypt={encrypt};TrustServerCertificate=yes;ConnectRetryCount=0",
        autocommit=autocommit,
    )
    connection.timeout = timeout
    return connection


@contextlib.contextmanager
def connected(driver: str, connection: str, **arguments: Any) -> Iterator[Any]:
    """A connection that is closed afterwards, even when it is broken."""
    opened = connect(driver, connection, **arguments)
    try:
        yield opened
    finally:
        with contextlib.suppress(Exception):
            opened.close()


def fetch(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    cursor = connection.cursor()
    try:
        cursor.execute(sql)
        return [tuple(row) for row in cursor.fetchall()]
    finally:
        with contextlib.suppress(Exception):
            cursor.close()


def run(connection: Any, sql: str) -> None:
    """A statement whose rows, if any, are of no interest."""
    cursor = connection.cursor()
    cursor.execute(sql)
    cursor.close()


@contextlib.contextmanager
def driver_error() -> Iterator[list[str]]:
    """The texts of the driver's errors that are raised inside; fails when there is none."""
    texts: list[str] = []
    try:
        yield texts
    except Exception as exc:
        module = type(exc).__module__
        if not module.startswith(("pymssql", "mssql_python", "_mssql", "builtins")):
            raise
        texts.append(f"{type(exc).__name__}: {exc}")
    else:
        raise AssertionError("the driver raised nothing")
