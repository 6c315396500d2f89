from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.lake.add_actions import delta_statistics, lower_bound, upper_bound


def statistics_of(values: list[Any], arrow_type: pa.DataType, *, group: int = 1000) -> dict[str, Any]:
    """Statistics of a file with one column c; decimals are kept as they are written."""
    file = io.BytesIO()
    table = pa.table({"c": pa.array(values, arrow_type)})
    pq.write_table(table, file, row_group_size=group, store_decimal_as_integer=True)
    text = delta_statistics(pq.read_metadata(file), ["c"])
    parsed: dict[str, Any] = json.loads(text, parse_float=Decimal, parse_int=Decimal)
    return parsed


NTZ, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("values", "arrow_type", "low", "high"),
    [
        ([3, 1, None, 2], pa.int16(), Decimal(1), Decimal(3)),
        ([2**63 - 1, -(2**63)], pa.int64(), Decimal(-(2**63)), Decimal(2**63 - 1)),
        (
            [Decimal("99999999999999.1111"), Decimal("-0.0001")],
            pa.decimal128(18, 4),
            Decimal("-0.0001"),
            Decimal("99999999999999.1111"),
        ),
        (
            [Decimal("9999999999999999999999999999.9999999999"), Decimal("1E-10")],
            pa.decimal128(38, 10),
            Decimal("0.0000000001"),
            Decimal("9999999999999999999999999999.9999999999"),
        ),
        ([dt.date(1, 1, 1), dt.date(9999, 12, 31)], pa.date32(), "0001-01-01", "9999-12-31"),
        (
            [dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1, 0, 0, 0, 123956)],
            NTZ,
            "0001-01-01T00:00:00.000000",
            "2024-01-01T00:00:00.123956",
        ),
        (
            [dt.datetime(987, 6, 5, 4, 3, 2, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)],
            UTC,
            "0987-06-05T04:03:02.000001Z",
            "9999-12-31T23:59:59.999999Z",
        ),
        (["b", 'a"\\\n\x00', None], pa.string(), 'a"\\\n\x00', "b"),
        (["Größe", "\U0001f600"], pa.large_string(), "Größe", "\U0001f600"),
    ],
)
def test_bounds_are_exact(values: list[Any], arrow_type: pa.DataType, low: Any, high: Any) -> None:
    statistics = statistics_of(values, arrow_type)
    assert statistics["numRecords"] == len(values)
    assert statistics["minValues"] == {"c": low}
    assert statistics["maxValues"] == {"c": high}
    assert statistics["nullCount"] == {"c": values.count(None)}


def test_a_decimal_is_written_with_all_its_digits() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"c": pa.array([Decimal("99999999999999.1111")], pa.decimal128(18, 4))}), file)
    assert '"maxValues":{"c":99999999999999.1111}' in delta_statistics(pq.read_metadata(file), ["c"])


@pytest.mark.parametrize(
    ("values", "arrow_type"),
    [
        ([1.5, float("nan"), -0.0], pa.float64()),
        ([1.5], pa.float32()),
        ([True, False], pa.bool_()),
        ([b"\x00", b"\xff"], pa.binary()),
        ([None, None], pa.int64()),
        ([None], pa.string()),
    ],
)
def test_where_there_is_no_order_or_no_value_only_nulls_are_counted(
    values: list[Any], arrow_type: pa.DataType
) -> None:
    statistics = statistics_of(values, arrow_type)
    assert statistics["minValues"] == statistics["maxValues"] == {}
    assert statistics["nullCount"] == {"c": values.count(None)}


def test_row_groups_are_taken_together_and_those_without_a_value_do_not_matter() -> None:
    statistics = statistics_of([None, None, 5, 7, 1, None], pa.int32(), group=2)
    assert (statistics["minValues"], statistics["maxValues"]) == ({"c": 1}, {"c": 7})
    assert statistics["nullCount"] == {"c": 3}


def test_a_row_group_that_does_not_tell_makes_the_column_silent() -> None:
    long = "x" * 5000  # Parquet leaves out statistics above 4 KiB
    assert statistics_of([long, "a", "b"], pa.string(), group=1)["maxValues"] == {}


def test_columns_that_are_not_asked_for_are_left_out() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "b": [2], "c d": [3]}), file)
    text = delta_statistics(pq.read_metadata(file), ["b", "gone"])
    assert json.loads(text) == {
        "numRecords": 1,
        "minValues": {"b": 2},
        "maxValues": {"b": 2},
        "nullCount": {"b": 0},
    }


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a" * 64, "a" * 64),
        ("a" * 65, "a" * 63 + "b"),
        ("a" * 63 + "\ud7ff" + "x", "a" * 63 + "\ue000"),
        ("a" * 63 + "\U0010ffff" + "x", "a" * 62 + "b"),
        ("a" + "\U0010ffff" * 100, "b"),
    ],
)
def test_a_long_text_is_rounded_up(text: str, bound: str) -> None:
    assert json.loads(upper_bound(text) or "") == bound


def test_a_text_that_nothing_is_above_has_no_upper_bound() -> None:
    assert upper_bound("\U0010ffff" * 65) is None


long_texts = st.text(min_size=50, max_size=80) | st.text(
    alphabet=["a", "\x7f", "\u07ff", "\ud7ff", "\ue000", "\uffff", "\U0010ffff"], min_size=60, max_size=70
)


@given(long_texts)
def test_bounds_enclose_every_text_in_the_order_of_its_bytes(text: str) -> None:
    low = json.loads(lower_bound(text) or "")
    assert low.encode() <= text.encode()
    assert len(low) <= 64
    high = upper_bound(text)
    if high is not None:
        assert json.loads(high).encode() >= text.encode()
        assert len(json.loads(high)) <= 64
