"""Batches as planned: names, casts that keep every value, and errors that name the source's column."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.errors import SchemaDrift, ValueDoesNotFit
from airflow_provider_mssql_cdc.planning.columns import lake_name
from airflow_provider_mssql_cdc.source.casting import PlannedBatches, text_of_units
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


def units_of(values: list[str | None], *, large: bool = False) -> pa.Array:
    kind = pa.large_binary() if large else pa.binary()
    return pa.array([None if value is None else value.encode("utf-16-le") for value in values], kind)


@given(
    st.lists(st.none() | st.text(st.characters(codec="utf-8"), max_size=6), max_size=12),
    st.booleans(),
    st.integers(0, 3),
)
@example(["ä", None, "", "\U0001f600"], False, 0)
@example(["\uffff", "a\uffffb", None, "ü"], False, 0)  # what stands between two values, in a value
@example(["ä\uffff", "\uffffä"], True, 1)
@example(["\x00", "ä\x00", "\ufffe"], False, 0)
@example([None, None], False, 1)
def test_texts_come_out_of_their_units_as_they_went_in(
    values: list[str | None], large: bool, skipped: int
) -> None:
    column = units_of(values, large=large).slice(skipped)
    texts = text_of_units(column)
    texts.validate(full=True)
    assert (texts.type, texts.to_pylist()) == (pa.string(), values[skipped:])


@pytest.mark.parametrize(
    "halves",
    [
        (b"\x3d\xd8", b"\x00\xde"),  # both halves of one character, in two values
        (b"\x3d\xd8", b""),
        (b"", b"\x00\xde"),
        (b"\xe4", b"\x00"),  # an odd number of bytes each, which together would be one character
    ],
)
def test_half_of_a_pair_is_an_error_also_where_its_neighbour_holds_the_other_half(
    halves: tuple[bytes, bytes],
) -> None:
    with pytest.raises(UnicodeDecodeError):
        text_of_units(pa.array(["ä".encode("utf-16-le"), *halves], pa.binary()))
