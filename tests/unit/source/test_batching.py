"""Batches are bounded in bytes, nothing is lost on their way, and types are never guessed."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.errors import SchemaDrift, ValueDoesNotFit
from airflow_provider_mssql_cdc.source.casting import LAST_MICROSECOND, PlannedBatches
from airflow_provider_mssql_cdc.source.reader import BATCH_BYTES, BatchQueue, FetchSize, assembled

MEGABYTE = 1024 * 1024


def batch(rows: int, width: int = 1) -> pa.RecordBatch:
    return pa.record_batch([pa.array([b"x" * width] * rows, pa.binary())], ["v"])


def test_narrow_rows_are_fetched_a_whole_batch_at_once() -> None:
    size = FetchSize(65_536, large_objects=False)
    for _ in range(5):
        size.saw(batch(size.rows))
    assert size.rows == 65_536


def test_wide_rows_are_fetched_in_fewer_at_once() -> None:
    size = FetchSize(65_536, large_objects=False)
    size.saw(batch(1024, width=8000))
    assert size.rows * 8000 <= BATCH_BYTES


def test_large_objects_are_fetched_one_by_one_until_they_are_known_to_be_small() -> None:
    size = FetchSize(65_536, large_objects=True)
    assert size.rows == 1
    for _ in range(9):
        size.saw(batch(size.rows))
    assert size.rows == 8
    size.saw(batch(1, width=4 * MEGABYTE))
    assert size.rows * 4 * MEGABYTE <= BATCH_BYTES
    size.saw(batch(1))
    assert size.rows <= 4, "one large value is remembered"


def test_a_batch_never_has_more_rows_than_were_asked_for() -> None:
    assert FetchSize(10, large_objects=False).rows == 10
    assert FetchSize(1, large_objects=True).rows == 1


@pytest.mark.parametrize(
    ("sizes", "batch_rows", "expected"),
    [
        ([], 10, []),
        ([3, 3, 3, 3], 10, [9, 3]),
        ([10, 10], 10, [10, 10]),
        ([4, 10, 1], 10, [4, 10, 1]),
        ([1] * 25, 10, [10, 10, 5]),
    ],
)
def test_small_batches_are_joined_up_to_the_number_of_rows(
    sizes: list[int], batch_rows: int, expected: list[int]
) -> None:
    joined = list(assembled((batch(rows) for rows in sizes), batch_rows=batch_rows))
    assert [part.num_rows for part in joined] == expected


def test_large_batches_are_not_joined_beyond_the_bytes() -> None:
    joined = list(assembled((batch(1, width=6 * MEGABYTE) for _ in range(5)), batch_rows=1000))
    assert [part.num_rows for part in joined] == [2, 2, 1]


def cast(source: pa.Array, target: pa.DataType) -> pa.Array:
    produced = pa.schema([("v", source.type)])
    planned = PlannedBatches(produced, pa.schema([("v", target)]), table="dbo.t")
    return planned(pa.record_batch([source], schema=produced)).column(0)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.array(["é", None], pa.large_string()), pa.string()),
        (pa.array([b"\0", None], pa.large_binary()), pa.binary()),
        (pa.array([255, None], pa.uint8()), pa.int16()),
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([Decimal("1.10"), None], pa.decimal128(10, 2)), pa.decimal128(19, 4)),
        (
            pa.array([datetime(2024, 1, 1, tzinfo=UTC), None], pa.timestamp("us", "+00:00")),
            pa.timestamp("us", "UTC"),
        ),
    ],
)
def test_a_cast_that_keeps_every_value_is_made(source: pa.Array, target: pa.DataType) -> None:
    found = cast(source, target)
    assert found.type == target
    assert [value == other for value, other in zip(found.to_pylist(), source.to_pylist(), strict=True)] == [
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.array([40_000], pa.int32()), pa.int16()),
        (pa.array([Decimal("1.11")], pa.decimal128(10, 2)), pa.decimal128(10, 1)),
        (pa.array([LAST_MICROSECOND + 1]).view(pa.timestamp("us", "+00:00")), pa.timestamp("us", "UTC")),
    ],
)
def test_a_value_that_its_column_cannot_hold_is_an_error_without_the_value(
    source: pa.Array, target: pa.DataType
) -> None:
    with pytest.raises(
        ValueDoesNotFit, match=r"dbo\.t: column \[?v\]? holds a value that .* cannot hold"
    ) as caught:
        cast(source, target)
    assert "40000" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.array([1], pa.int32()), pa.string()),
        (pa.array([1.5]), pa.int32()),
        (pa.array(["1"]), pa.int32()),
        (pa.array([1], pa.int64()), pa.timestamp("us")),
    ],
)
def test_another_kind_of_type_than_planned_is_drift_and_not_cast(
    source: pa.Array, target: pa.DataType
) -> None:
    with pytest.raises(SchemaDrift, match=r"dbo\.t: column v: expected .+, the server returned"):
        cast(source, target)


def test_a_queue_hands_batches_over_in_order_and_then_the_error() -> None:
    queue = BatchQueue()
    for rows in (1, 2):
        assert queue.put(batch(rows))
    queue.end(ValueError("broken"))
    taken = [queue.take(wait_seconds=60), queue.take(wait_seconds=60)]
    assert [part.num_rows for part in taken if part is not None] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        queue.take(wait_seconds=60)


def test_a_queue_that_is_ended_has_nothing_more() -> None:
    queue = BatchQueue()
    queue.end()
    assert queue.take(wait_seconds=60) is None


def test_waiting_for_a_batch_has_an_end() -> None:
    with pytest.raises(TimeoutError):
        BatchQueue().take(wait_seconds=0.05)


@pytest.mark.parametrize(
    ("options", "width", "held"), [({"max_batches": 3}, 1, 3), ({"max_bytes": 5 * MEGABYTE}, 2 * MEGABYTE, 2)]
)
def test_a_queue_holds_few_batches_and_few_bytes(options: dict[str, Any], width: int, held: int) -> None:
    queue, put = BatchQueue(**options), []

    def fill() -> None:
        while queue.put(batch(1, width)):
            put.append(1)

    filler = threading.Thread(target=fill)
    filler.start()
    deadline = time.monotonic() + 60
    while len(put) < held and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.1)
    assert len(put) == held
    queue.take(wait_seconds=60)
    queue.close()
    filler.join(60)
    assert not filler.is_alive()


def test_a_batch_larger_than_the_bound_still_passes() -> None:
    queue = BatchQueue(max_bytes=10)
    assert queue.put(batch(1, MEGABYTE))
    assert queue.take(wait_seconds=60) is not None


def test_closing_a_queue_wakes_the_one_who_waits_for_a_batch() -> None:
    queue = BatchQueue()
    threading.Timer(0.1, queue.close).start()
    assert queue.take(wait_seconds=10) is None
