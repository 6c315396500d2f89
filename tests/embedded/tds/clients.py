"""Connections of both drivers, with the login that the scripted engine knows."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from types import TracebackType
from typing import Any

import pytest

USER, PASSWORD = "sa", "Pa:s@/?#%w0rd"
_REFUSED = """
import pymssql, sys
port, user, password = sys.argv[1:]
try:
    pymssql.connect(server="127.0.0.1", port=port, user=user, password=password, database="db")
except pymssql.Error as exc:
    print(exc)
"""


class Clients:
    def __init__(self, port: int) -> None:
        self.port = port
        self._opened = contextlib.ExitStack()

    def pymssql(self, *, autocommit: bool = True, **arguments: Any) -> Any:
        driver = pytest.importorskip("pymssql")
        login = {"server": "127.0.0.1", "port": str(self.port), "user": USER, "password": PASSWORD}
        connection = driver.connect(**{**login, "database": "db", "autocommit": autocommit, **arguments})
        self._opened.callback(_close, connection)
        return connection

    def pymssql_refusal(self, *, password: str = PASSWORD) -> str:
        """What pymssql says of a refused login, in a separate process: after a first refusal it tells
        the number of that one for the rest of its process's life."""
        pytest.importorskip("pymssql")
        arguments = [str(self.port), USER, password]
        done = subprocess.run(
            [sys.executable, "-c", _REFUSED, *arguments], capture_output=True, text=True, check=True
        )
        return done.stdout

    def mssql_python(
        self,
        extra: str = "Encrypt=no",
        *,
        autocommit: bool = True,
        password: str = PASSWORD,
        **arguments: Any,
    ) -> Any:
        driver = pytest.importorskip("mssql_python")
        text = f"Server=127.0.0.1,{self.port};Database=db;UID={USER};PWD={{{password}}};{extra}"
        connection = driver.connect(text, autocommit=autocommit, **arguments)
        self._opened.callback(_close, connection)
        return connection

    def __enter__(self) -> Clients:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._opened.close()


def _close(connection: Any) -> None:
    """Close what may be broken deliberately."""
    with contextlib.suppress(Exception):
        connection.close()


def fetch(connection: Any, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    cursor = connection.cursor()
    cursor.execute(sql, parameters) if parameters else cursor.execute(sql)
    return [tuple(row) for row in cursor.fetchall()]
