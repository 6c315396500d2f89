"""SQL types: how the catalog's rows become declarations, and what cannot be one."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.model.source_table import SqlType


@pytest.mark.parametrize(
    ("name", "max_length", "precision", "scale", "declaration"),
    [
        ("int", 4, 10, 0, "int"),
        ("bit", 1, 1, 0, "bit"),
        ("numeric", 9, 18, 4, "decimal(18,4)"),
        ("DECIMAL", 17, 38, 38, "decimal(38,38)"),
        ("money", 8, 19, 4, "money"),
        ("timestamp", 8, 0, 0, "rowversion"),
        ("datetime2", 8, 27, 7, "datetime2(7)"),
        ("time", 3, 8, 0, "time(0)"),
        ("datetimeoffset", 10, 34, 7, "datetimeoffset(7)"),
        ("varchar", 20, 0, 0, "varchar(20)"),
        ("nvarchar", 100, 0, 0, "nvarchar(50)"),
        ("nvarchar", -1, 0, 0, "nvarchar(max)"),
        ("sysname", 256, 0, 0, "nvarchar(128)"),
        ("varbinary", -1, 0, 0, "varbinary(max)"),
        ("binary", 16, 0, 0, "binary(16)"),
        ("text", 16, 0, 0, "text"),
        ("float", 8, 53, 0, "float"),
        ("geography", -1, 0, 0, "geography"),
        ("AssemblyPoint", -1, 0, 0, "clr"),
    ],
)
def test_a_catalog_row_becomes_the_type_as_ddl_spells_it(
    name: str, max_length: int, precision: int, scale: int, declaration: str
) -> None:
    found = SqlType.from_catalog(name, max_length, precision=precision, scale=scale)
    assert str(found) == declaration


def test_the_collation_stays_with_char_types_alone() -> None:
    collation = "SQL_Latin1_General_CP1_CI_AS"
    assert SqlType.from_catalog("varchar", 20, collation=collation).collation == collation
    assert SqlType.from_catalog("int", 4, collation=collation).collation is None


@pytest.mark.parametrize(
    "values",
    [
        {"name": "integer"},
        {"name": "varchar", "max_length": 0},
        {"name": "varchar", "max_length": 8001},
        {"name": "char", "max_length": -1},
        {"name": "decimal", "precision": 39},
        {"name": "decimal", "precision": 5, "scale": 6},
        {"name": "time", "scale": 8},
        {"name": "varchar", "max_length": 20, "collation": "x); DROP TABLE t --"},
    ],
)
def test_what_is_no_type_cannot_be_built(values: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        SqlType(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("declared", "large"),
    [
        (SqlType("varchar", -1), True),
        (SqlType("varbinary", -1), True),
        (SqlType("varchar", 8000), False),
        (SqlType("xml"), True),
        (SqlType("image"), True),
        (SqlType("int"), False),
        (SqlType("int", max_length=-1), False),
    ],
)
def test_large_objects_are_known(declared: SqlType, large: bool) -> None:
    assert declared.is_max is large
