"""A source table's columns as the catalog describes them."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.sql_type import SqlType


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the source table.

    :param name: the catalog's spelling.
    :param column_id: ``sys.columns.column_id``.
    :param sql_type: base type; an alias type is resolved to it.
    :param nullable: whether the source column accepts NULL.
    :param computed: its value is computed; CDC stores NULL for it.
    :param masked: this login reads a mask: dynamic data masking is on and it has no UNMASK.
    :param encrypted: Always Encrypted; only ciphertext can be read.
    :param column_set: the XML view of the sparse columns, no column of its own.
    :param captured: whether the capture instance records it.
    """

    name: str
    column_id: int
    sql_type: SqlType
    nullable: bool = True
    computed: bool = False
    masked: bool = False
    encrypted: bool = False
    column_set: bool = False
    captured: bool = True


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table as the catalog names it: ``object_id`` identifies it, the names are for people and SQL."""

    database: str
    schema: str
    name: str
    object_id: int

    @property
    def label(self) -> str:
        """``schema.table`` for logs and messages."""
        return f"{self.schema}.{self.name}"
