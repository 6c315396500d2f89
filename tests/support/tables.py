"""Tables and columns that tests of the pure layers share."""

from __future__ import annotations

from airflow_provider_mssql_cdc.model.source_table import Column, SourceTable, SqlType

CASELESS = "SQL_Latin1_General_CP1_CI_AS"

ORDERS = SourceTable("erp", "dbo", "orders", 581577110)
HOSTILE = SourceTable("erp", "Acme Inc$", "Ledger ]Entry% [x", 42)


def column(name: str, declared: str, *, nullable: bool = False, **facts: bool) -> Column:
    """A column from a type as DDL spells it; char types get a case-insensitive collation."""
    return Column(name, 1, sql_type(declared), nullable=nullable, **facts)


def sql_type(declared: str) -> SqlType:
    """A type as DDL spells it, ``varchar(20)`` or ``decimal(18,4)``."""
    name, _, arguments = declared.removesuffix(")").partition("(")
    numbers = [-1 if number == "max" else int(number) for number in arguments.split(",") if number]
    if name == "decimal":
        return SqlType(name, precision=numbers[0], scale=numbers[1])
    if name in {"time", "datetime2", "datetimeoffset"}:
        return SqlType(name, scale=numbers[0])
    if name in {"nchar", "nvarchar"}:
        return SqlType(name, -1 if numbers[0] == -1 else 2 * numbers[0], collation=CASELESS)
    if name in {"char", "varchar"}:
        return SqlType(name, numbers[0], collation=CASELESS)
    if name in {"binary", "varbinary"}:
        return SqlType(name, numbers[0])
    return SqlType(name)
