"""The lake's column types as Arrow types: what a batch is built with on its way from source to lake."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_mssql_cdc.model.source_table import LakeColumn

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)\Z")
_TYPES: dict[str, pa.DataType] = {
    "bool": pa.bool_(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def arrow_type(data_type: str) -> pa.DataType:
    """The Arrow type of a :class:`~.model.planned_column.LakeColumn`'s ``data_type``.

    :raises ValueError: for a name that no column is planned with.
    """
    if match := _DECIMAL.match(data_type):
        return pa.decimal128(int(match[1]), int(match[2]))
    try:
        return _TYPES[data_type]
    except KeyError:
        raise ValueError(f"no column of the lake has the type {data_type!r}") from None


def captured_schema(columns: Sequence[LakeColumn]) -> pa.Schema:
    """The captured columns, in order, as the lake names them; all of them may hold NULL."""
    return pa.schema([pa.field(column.name, arrow_type(column.data_type)) for column in columns])
