"""What a driver has to do for a session: two implementations, one result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from airflow_provider_mssql_cdc.errors import ConnectionBroken
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql.statement import Statement

BATCH_ROWS = 16_384
"""A fetch costs the same per row from some thousand rows on; four times as many take 15 MiB more."""
BATCH_BYTES = 16 * 1024 * 1024


class DriverConnection(Protocol):
    """One open connection in autocommit mode; all of it is called on one thread."""

    def execute(self, statement: Statement) -> None:
        """Run a statement that has no rows."""

    def rows(self, statement: Statement) -> list[dict[str, Any]]:
        """All rows of a small result."""

    def batches(
        self, statement: Statement, schema: pa.Schema, *, batch_rows: int, table: str
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a large result, as ``schema`` plans them, in bounded memory.

        Closing the iterator ends the statement on the server.

        :raises ConnectionBroken: the rows ended and the server's count of them says otherwise.
        :raises SchemaDrift: the result has other columns than ``schema``.
        :raises ValueDoesNotFit: names ``table`` and the column, never the value.
        """

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Driver:
    """A way to open connections, and the exceptions that it raises.

    :param label: name and version, for logs and facts.
    """

    label: str
    open: Callable[[ConnectionSettings], DriverConnection]
    errors: tuple[type[Exception], ...]


def check_count(sent: int | None, rows: int, table: str) -> None:
    """The server's own count of the rows has to arrive and to agree, or they ended early.

    :raises ConnectionBroken: it does not.
    """
    if sent == rows:
        return
    count = "the server's count of them never came" if sent is None else f"the server counts {sent:,}"
    raise ConnectionBroken(
        f"{table}: the rows ended after {rows:,} and {count}; the connection broke while reading. The range "
        "is read again from its start at the next attempt"
    )
