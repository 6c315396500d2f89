"""A table of the contract's database, made, described and dropped."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.source_table import Column, SourceTable, SqlType
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql import catalog
from airflow_provider_mssql_cdc.tsql.snapshot import select_range
from airflow_provider_mssql_cdc.tsql.statement import qualified, quote_identifier
from tests.contract.target import Target


@dataclass(frozen=True, slots=True)
class Made:
    """A table and its columns as the catalog describes them."""

    table: SourceTable
    columns: tuple[Column, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)


@contextmanager
def made(target: Target, session: SourceSession, definition: str, *inserts: str) -> Iterator[Made]:
    """``CREATE TABLE dbo.<new name> (<definition>)``, then the inserts with ``{t}`` for its name."""
    name = f"t_{secrets.token_hex(5)}"
    quoted = qualified("dbo", name)
    target.run(f"CREATE TABLE {quoted} ({definition})", *(insert.format(t=quoted) for insert in inserts))
    try:
        yield described(session, "dbo", name)
    finally:
        target.run(f"DROP TABLE {quoted}")


@contextmanager
def named(target: Target, session: SourceSession, name: str) -> Iterator[Made]:
    """A table of that very name, with one column of that name, which holds a 7."""
    quoted, column = (text.replace("%%", "%") for text in (qualified("dbo", name), quote_identifier(name)))
    target.run(
        f"CREATE TABLE {quoted} ({column} int NOT NULL PRIMARY KEY)", f"INSERT INTO {quoted} VALUES (7)"
    )
    try:
        yield described(session, "dbo", name)
    finally:
        target.run(f"DROP TABLE {quoted}")


def read(
    session: SourceSession, table: Made, casts: Mapping[str, str] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """All rows as the product reads them."""
    planned = plan_columns(table.columns, dict(casts))
    assert planned.problems == ()
    schema = captured_schema([column.lake for column in planned.columns])
    statement = select_range(table.table, planned.columns, split_by=(), key_range=KeyRange())
    return [row for batch in session.read(statement, schema) for row in batch.to_pylist()]


def described(session: SourceSession, schema: str, name: str) -> Made:
    """What the product's own catalog queries say of a table."""
    row = session.rows(catalog.table_by_name(schema, name))[0]
    database = session.rows(catalog.database_facts())[0]["database_name"]
    table = SourceTable(database, row["schema_name"], row["table_name"], int(row["object_id"]))
    columns = tuple(
        Column(
            name=found["column_name"],
            column_id=int(found["column_id"]),
            sql_type=SqlType.from_catalog(
                found["type_name"],
                int(found["max_length"]),
                precision=int(found["precision"]),
                scale=int(found["scale"]),
                collation=found["collation_name"],
            ),
            nullable=bool(found["is_nullable"]),
            computed=bool(found["is_computed"]),
            utf16=session.utf16,
        )
        for found in session.rows(catalog.table_columns(table.object_id))
    )
    return Made(table, columns)
