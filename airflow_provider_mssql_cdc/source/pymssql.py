"""pymssql: the driver of Airflow's own provider, always installed; its tuples become Arrow here."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

import pyarrow as pa
import pymssql

from airflow_provider_mssql_cdc.collected import collect
from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.source.casting import check_names, does_not_fit, half_a_pair, in_calendar
from airflow_provider_mssql_cdc.source.connect import pymssql_arguments, trusted_by_freetds
from airflow_provider_mssql_cdc.source.reader import (
    BATCH_BYTES,
    Driver,
    assembled,
    check_count,
    marked_answers,
)
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.task_memory import share_of
from airflow_provider_mssql_cdc.tsql.statement import Statement, counted, in_one_batch, with_literals

# MSSQLException comes up from db-lib without its DB-API wrapping while rows are fetched
ERRORS: tuple[type[Exception], ...] = (pymssql.Error, pymssql._mssql.MSSQLException)

CHUNK_ROWS = 10_000
"""Rows per conversion to Arrow; measured as the cheapest per cell."""
CHUNK_BYTES = BATCH_BYTES // 2
"""Maximum string and binary data per chunk: the conversion to Arrow holds it twice."""


class PymssqlConnection:
    """A :class:`~.reader.DriverConnection` for pymssql."""

    def __init__(self, settings: ConnectionSettings) -> None:
        with trusted_by_freetds(settings):
            self._connection = pymssql.connect(**pymssql_arguments(settings))
        self._timeout = settings.query_timeout_seconds
        version = self._connection._conn.tds_version_tuple
        if version is not None and version < (7, 3):
            self.close()
            raise ConfigurationError(
                f"connection {settings.conn_id!r} speaks TDS {version[0]}.{version[1]}, which has no date, "
                'time and datetime2; take "tds_version" out of its extra'
            )

    def execute(self, statement: Statement) -> None:
        self._run(statement)

    def rows(self, statement: Statement) -> list[dict[str, Any]]:
        cursor = self._run(statement)
        if cursor.description is None:
            return []
        names = [column[0] for column in cursor.description]
        found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        while cursor.nextset():  # an error after the rows shows here
            pass
        return found

    def results(self, statements: Sequence[Statement]) -> list[list[dict[str, Any]]]:
        cursor = self._run(in_one_batch(statements))
        return marked_answers(list(_results(cursor)), count=len(statements))

    def batches(
        self, statement: Statement, schema: pa.Schema, *, batch_rows: int, table: str
    ) -> Iterator[pa.RecordBatch]:
        cursor = self._run(counted(statement))
        check_names([column[0] for column in cursor.description or ()], schema, table=table)
        rows, whole = 0, False
        try:
            for batch in assembled(_converted(cursor, schema, batch_rows, table), batch_rows=batch_rows):
                rows += batch.num_rows
                yield batch
            whole = True
            sent = cursor.fetchone() if cursor.nextset() else None
            check_count(None if sent is None else sent[0], rows, table)
        finally:
            if not whole:
                with contextlib.suppress(*ERRORS):
                    self._connection._conn.cancel()

    def close(self) -> None:
        self._connection.close()

    def _run(self, statement: Statement) -> Any:
        # db-lib has one query timeout for the whole process: another connection may have changed it.
        self._connection._conn.query_timeout = self._timeout
        cursor = self._connection.cursor()
        text = with_literals(statement)
        collect("sent", text.replace("%", "%%"))
        cursor.execute(text)
        return cursor


def plain_connection(settings: ConnectionSettings, extras: Mapping[str, Any]) -> pymssql.Connection:
    """Open a connection for Airflow's own SQL operators: DB-API transactions, same trust as for a read.

    :param extras: ``pymssql.connect`` arguments for cursors.
    """
    arguments = {**pymssql_arguments(settings), "autocommit": False, **extras}
    if settings.conn_properties:  # else pymssql runs its own
        arguments["conn_properties"] = list(settings.conn_properties)
    with trusted_by_freetds(settings):
        return pymssql.connect(**arguments)


def _results(cursor: Any) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield names and rows of each result."""
    while True:
        if cursor.description is not None:
            yield [column[0] for column in cursor.description], cursor.fetchall()
        if not cursor.nextset():
            return


def _converted(cursor: Any, schema: pa.Schema, batch_rows: int, table: str) -> Iterator[pa.RecordBatch]:
    for rows in _chunks(cursor, schema, most=min(batch_rows, CHUNK_ROWS)):
        yield _batch(rows, schema, table)


def _batch(rows: list[tuple[Any, ...]], schema: pa.Schema, table: str) -> pa.RecordBatch:
    """Convert the rows to Arrow; empties the list and frees each column once it is converted."""
    columns = list(zip(*rows, strict=True))
    rows.clear()
    columns.reverse()
    arrays = [_column(columns.pop(), field, table) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _chunks(cursor: Any, schema: pa.Schema, *, most: int) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows until there are ``most`` of them or their strings and bytes reach :data:`CHUNK_BYTES`."""
    wide = [index for index, field in enumerate(schema) if field.type in (pa.string(), pa.binary())]
    rows: list[tuple[Any, ...]] = []
    size, most_bytes = 0, share_of(CHUNK_BYTES)
    for row in cursor:
        rows.append(row)
        size += sum(row[index].__sizeof__() for index in wide)
        if len(rows) >= most or size >= most_bytes:
            del row  # else its values live until the next one comes
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _column(values: Sequence[Any], field: pa.Field, table: str) -> pa.Array:
    """Convert one column of a chunk to its planned type.

    :raises ValueDoesNotFit: names the column, never the value.
    """
    try:
        array = pa.array(_texts(values) if field.type == pa.string() else values, field.type)
        return in_calendar(array) if pa.types.is_timestamp(field.type) and field.type.tz else array
    except UnicodeDecodeError:
        raise half_a_pair(table, field.name) from None
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        # the exception's text shows the value
        raise does_not_fit(table, field.name, field.type) from None


def _texts(values: Sequence[Any]) -> Sequence[Any]:
    """Return strings as they are, or decoded from UTF-16 units; UUIDs as the server prints them.

    :raises UnicodeDecodeError: a value has an unpaired surrogate.
    """
    first = next((value for value in values if value is not None), None)
    if isinstance(first, bytes):
        return [None if value is None else value.decode("utf-16-le") for value in values]
    if isinstance(first, UUID):
        return [None if value is None else str(value).upper() for value in values]
    return values


DRIVER = Driver(f"pymssql {importlib.metadata.version('pymssql')}", PymssqlConnection, ERRORS)
