"""The rows of one key range, as a stream of record batches, under the session's isolation."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import ValueDoesNotFit
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.tsql.identifiers import shown
from airflow_provider_mssql_cdc.tsql.snapshot import select_range

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession

Batch = TypeVar("Batch")


@contextlib.contextmanager
def rows_of_range(
    session: SourceSession, source: LoadableTable, key_range: KeyRange, *, label: str
) -> Iterator[Iterator[Any]]:
    """Record batches of the captured columns; whoever needs a stamp has asked for it before.

    Under SNAPSHOT what happens inside is one transaction.

    :param label: what messages call the rows.
    :raises ValueDoesNotFit: names the table, the range and the column.
    """
    statement = select_range(
        source.description.table, source.columns, split_by=source.split_columns, key_range=key_range
    )
    with session.transaction():
        batches = session.read(statement, captured_schema(source.lake_columns), table=label)
        yield _with_casts_named(batches, source)


def _with_casts_named(batches: Iterator[Batch], source: LoadableTable) -> Iterator[Batch]:
    """The server does not say in which column a cast failed: the error names the columns that are cast."""
    try:
        yield from batches
    except ValueDoesNotFit as exc:
        if exc.column is not None or not source.casts:
            raise
        casts = ", ".join(f"{shown(name)} as {declared}" for name, declared in source.casts.items())
        raise ValueDoesNotFit(f"{exc}. Columns that casts convert: {casts}") from exc
