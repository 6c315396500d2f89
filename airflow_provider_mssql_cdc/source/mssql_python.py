"""mssql-python: Microsoft's driver, which fetches Arrow batches."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator, Sequence
from typing import Any

import mssql_python
import pyarrow as pa
from mssql_python import ddbc_bindings
from mssql_python.cursor import Cursor
from mssql_python.exceptions import sqlstate_to_exception

from airflow_provider_mssql_cdc.collected import collect
from airflow_provider_mssql_cdc.source.casting import PlannedBatches
from airflow_provider_mssql_cdc.source.connect import odbc_connection_string, trusted_by_odbc
from airflow_provider_mssql_cdc.source.reader import Driver, FetchSize, assembled, check_count, marked_answers
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings
from airflow_provider_mssql_cdc.tsql.statement import (
    Statement,
    counted,
    in_one_batch,
    with_end,
    with_question_marks,
)

# RuntimeError: what its native part raises; its own exceptions derive from a class of theirs
ERRORS: tuple[type[Exception], ...] = (mssql_python.exceptions.Exception, RuntimeError, pa.ArrowException)


_SQLSTATES = "08001 08003 08004 08007 08S01 28000 40001 42S02 42S22 HYT00 HYT01 22001 22003 22007 22008 22018"
_SQLSTATE_OF = {
    exception.driver_error: state
    for state in _SQLSTATES.split()
    if (exception := sqlstate_to_exception(state, "")) is not None
}
"""The driver's exceptions hold this text in place of the SQLSTATE that they were created from."""


class _Cursor(Cursor):
    """Keep the server's report of a failed statement: the driver's exceptions have no error number."""

    diagnostics: tuple[tuple[str, str], ...] = ()

    def _reset_cursor(self) -> None:
        self.note_diagnostics()
        super()._reset_cursor()

    def note_diagnostics(self) -> None:
        """Read the statement handle's diagnostic records, which are valid until its next use."""
        if self.hstmt is not None and not self.diagnostics:
            with contextlib.suppress(RuntimeError):
                records = ddbc_bindings.DDBCSQLGetAllDiagRecords(self.hstmt)  # type: ignore[attr-defined]
                self.diagnostics = tuple(records)


class MssqlPythonConnection:
    """A :class:`~.reader.DriverConnection` for mssql-python."""

    def __init__(self, settings: ConnectionSettings) -> None:
        # A pooled connection outlives its session, and a new session could be handed a dead one.
        mssql_python.pooling(enabled=False)
        with trusted_by_odbc(settings):
            self._connection = mssql_python.connect(
                odbc_connection_string(settings), autocommit=True, timeout=settings.login_timeout_seconds
            )
        self._timeout = settings.query_timeout_seconds

    def execute(self, statement: Statement) -> None:
        with self._cursor() as cursor:
            _execute(cursor, statement)
            while cursor.nextset():  # an error shows where it came
                pass

    def rows(self, statement: Statement) -> list[dict[str, Any]]:
        return self._marked(with_end(statement), count=1)[0]

    def results(self, statements: Sequence[Statement]) -> list[list[dict[str, Any]]]:
        return self._marked(in_one_batch(statements), count=len(statements))

    def _marked(self, statement: Statement, *, count: int) -> list[list[dict[str, Any]]]:
        with self._cursor() as cursor:
            _execute(cursor, statement)
            results = list(_results(cursor))
        return marked_answers(results, count=count)

    def batches(
        self, statement: Statement, schema: pa.Schema, *, batch_rows: int, table: str
    ) -> Iterator[pa.RecordBatch]:
        with self._cursor() as cursor:
            _execute(cursor, counted(statement))
            rows = 0
            for batch in assembled(_fetched(cursor, schema, batch_rows, table), batch_rows=batch_rows):
                rows += batch.num_rows
                yield batch
            sent = cursor.fetchone() if cursor.nextset() else None
            check_count(None if sent is None else sent[0], rows, table)

    def close(self) -> None:
        self._connection.close()

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[_Cursor]:
        cursor = _Cursor(self._connection, timeout=self._timeout)
        try:
            yield cursor
        except ERRORS as exc:
            cursor.note_diagnostics()
            exc.diagnostics = cursor.diagnostics  # type: ignore[attr-defined]
            exc.sqlstate = _SQLSTATE_OF.get(getattr(exc, "driver_error", ""))  # type: ignore[attr-defined]
            raise
        finally:
            cursor.close()


def _execute(cursor: _Cursor, statement: Statement) -> None:
    collect("sent", statement.text)
    text, values = with_question_marks(statement)
    if values:
        cursor.execute(text, values)
    else:
        cursor.execute(text)


def _results(cursor: _Cursor) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield names and rows of each result; skips row counts that procedures send in between."""
    while True:
        if cursor.description is not None:
            yield [column[0] for column in cursor.description], cursor.fetchall()
        if not cursor.nextset():
            return


def _fetched(cursor: _Cursor, schema: pa.Schema, batch_rows: int, table: str) -> Iterator[pa.RecordBatch]:
    size = FetchSize(batch_rows, large_objects=_has_large_objects(cursor))
    planned: PlannedBatches | None = None
    while True:
        batch = cursor.arrow_batch(size.rows)
        if planned is None:
            planned = PlannedBatches(batch.schema, schema, table=table)
        if not batch.num_rows:
            return
        size.saw(batch)
        yield planned(batch)
        del batch  # while the next one is fetched


def _has_large_objects(cursor: _Cursor) -> bool:
    """Return whether the result has (max) columns: their described size is 0; they are fetched in pieces."""
    return any(kind in (str, bytes) and not size for _, kind, _, size, *_ in cursor.description or ())


DRIVER = Driver(f"mssql-python {importlib.metadata.version('mssql-python')}", MssqlPythonConnection, ERRORS)
