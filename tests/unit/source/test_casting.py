"""Batches as planned: names, casts that keep every value, and errors that name the source's column."""

from __future__ import annotations

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.errors import SchemaDrift, ValueDoesNotFit
from airflow_provider_mssql_cdc.planning.columns import lake_name
from airflow_provider_mssql_cdc.source.casting import PlannedBatches
from airflow_provider_mssql_cdc.tsql.statement import result_name

LONG = lake_name("a b" * 42)


def batch(name: str, values: list[object], kind: pa.DataType) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(values, kind)], names=[name])


@pytest.mark.parametrize("name", ["at", "at, local", "100% [sure]", "_x0020_", "🌺 {x}"])
def test_a_value_that_does_not_fit_is_told_by_the_source_s_name_and_never_shown(name: str) -> None:
    planned = pa.schema([pa.field(lake_name(name), pa.timestamp("us", tz="UTC"))])
    source = batch(lake_name(name), [253_402_300_800_000_000], pa.timestamp("us", tz="UTC"))
    with pytest.raises(ValueDoesNotFit) as caught:
        PlannedBatches(source.schema, planned, table="dbo.t, range 2 of 7")(source)
    assert caught.value.column == name
    assert "dbo.t, range 2 of 7: column [" in str(caught.value)
    assert f"casts={{{name!r}: " in str(caught.value)
    assert "253402300800" not in str(caught.value)


def test_a_name_that_is_too_long_for_a_result_comes_back_as_the_lake_s() -> None:
    planned = pa.schema([pa.field(LONG, pa.int64())])
    sent = batch(result_name(LONG), [7], pa.int32())
    assert len(LONG) > 128 >= len(result_name(LONG))
    assert PlannedBatches(sent.schema, planned, table="t")(sent).to_pydict() == {LONG: [7]}


def test_other_columns_than_asked_for_are_drift() -> None:
    planned = pa.schema([pa.field("a", pa.int64())])
    with pytest.raises(SchemaDrift, match="clear the plan task"):
        PlannedBatches(batch("b", [1], pa.int64()).schema, planned, table="t")
    with pytest.raises(SchemaDrift, match="expected int64, the server returned string"):
        PlannedBatches(batch("a", ["1"], pa.string()).schema, planned, table="t")
