from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.arrow_types import arrow_type, captured_schema, texts
from airflow_provider_mssql_cdc.model.source_table import LakeColumn


@pytest.mark.parametrize(
    ("data_type", "expected"),
    [
        ("bool", pa.bool_()),
        ("int16", pa.int16()),
        ("int64", pa.int64()),
        ("decimal(38,0)", pa.decimal128(38, 0)),
        ("decimal(19,4)", pa.decimal128(19, 4)),
        ("timestamp_ntz", pa.timestamp("us")),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("string", pa.string()),
        ("binary", pa.binary()),
    ],
)
def test_each_type_of_the_lake_has_one_arrow_type(data_type: str, expected: pa.DataType) -> None:
    assert arrow_type(data_type) == expected


@pytest.mark.parametrize("data_type", ["", "int8", "decimal", "decimal(18)", "timestamp[us]", "STRING"])
def test_a_type_that_no_column_is_planned_with_is_an_error(data_type: str) -> None:
    with pytest.raises(ValueError, match="no column of the lake"):
        arrow_type(data_type)


def test_the_captured_schema_has_the_lake_s_names_in_order() -> None:
    columns = [LakeColumn("id", "Id", "int32"), LakeColumn("Entry_x0020_No", "Entry No", "string")]
    assert captured_schema(columns) == pa.schema([("id", pa.int32()), ("Entry_x0020_No", pa.string())])


@pytest.mark.parametrize(
    "values", [[], ["a"], ["", None, "größer", "\U0001f600", None], [None] * 9, ["x"] * 8 + [None]]
)
def test_texts_become_the_array_that_arrow_would_build(values: list[str | None]) -> None:
    array = texts(values)
    array.validate(full=True)
    assert array.equals(pa.array(values, pa.string()))
