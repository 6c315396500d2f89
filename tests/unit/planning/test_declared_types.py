"""Types in ``casts``: what is read, and that nothing else gets through."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.planning.types import parse_type


@pytest.mark.parametrize(
    ("text", "declaration"),
    [
        ("int", "int"),
        (" INTEGER ", "int"),
        ("varchar(100)", "varchar(100)"),
        ("VarChar ( 100 )", "varchar(100)"),
        ("nvarchar(MAX)", "nvarchar(max)"),
        ("nvarchar(4000)", "nvarchar(4000)"),
        ("varbinary(max)", "varbinary(max)"),
        ("decimal", "decimal(18,0)"),
        ("decimal(18, 4)", "decimal(18,4)"),
        ("numeric(9)", "decimal(9,0)"),
        ("datetime2", "datetime2(7)"),
        ("time(0)", "time(0)"),
        ("float", "float"),
        ("float(53)", "float"),
        ("float(24)", "real"),
        ("uniqueidentifier", "uniqueidentifier"),
        ("xml", "xml"),
    ],
)
def test_a_type_is_read_as_ddl_spells_it(text: str, declaration: str) -> None:
    assert str(parse_type(text)) == declaration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "varchar",
        "char(max)",
        "varchar(0)",
        "varchar(8001)",
        "nvarchar(4001)",
        "varchar(10, 2)",
        "int(4)",
        "decimal(39)",
        "decimal(5, 6)",
        "decimal(max)",
        "datetime2(8)",
        "geography",
        "sql_variant",
        "rowversion",
        "dbo.alias",
        "varchar(100) COLLATE x",
        "int) FROM t --",
        "varchar(100))",
        "varchar(１)",
    ],
)
def test_anything_else_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="must be written like|can be cast to"):
        parse_type(text)
