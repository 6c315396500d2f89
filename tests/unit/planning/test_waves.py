"""How chunks are grouped into waves, which waves a run maps, and how fast they come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_mssql_cdc.errors import IncompletePlan
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.snapshots import (
    WaveEnd,
    chunks_per_wave,
    load_rate,
    missing_waves,
    refuse_missing,
)

NOON = datetime(2024, 5, 11, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("chunks", "max_waves", "asked", "each"),
    [
        (1, 256, None, 1),
        (256, 256, None, 1),
        (257, 256, None, 2),
        (4096, 256, None, 16),
        (10_000, 256, None, 16),
        (10_000, 256, 40, 40),
        (10, 1, None, 10),
        (3, 256, 40, 3),
    ],
)
def test_a_plan_fits_one_run_up_to_sixteen_chunks_per_wave(
    chunks: int, max_waves: int, asked: int | None, each: int
) -> None:
    assert chunks_per_wave(chunks, max_waves=max_waves, asked=asked) == each


@pytest.mark.parametrize("wrong", [(0, 1, None), (1, 0, None), (1, 1, 0)])
def test_nothing_is_cut_into_no_pieces(wrong: tuple[int, int, int | None]) -> None:
    with pytest.raises(ValueError):
        chunks_per_wave(wrong[0], max_waves=wrong[1], asked=wrong[2])


def test_missing_waves_are_named_and_counted() -> None:
    assert missing_waves(4, {0, 2}) == [1, 3]
    refuse_missing([], snapshot=Lsn(1), waves=4)
    with pytest.raises(IncompletePlan, match=r"12 of 20 wave\(s\) are not in bronze: 1, .* and 2 more"):
        refuse_missing(list(range(12)), snapshot=Lsn(1), waves=20)


@pytest.mark.parametrize(
    ("minutes", "rows_per_second"),
    [
        ([], None),
        ([0], None),
        ([0, 0], None),
        ([0, 1], 100.0),
        ([2, 0, 1], 100.0),
        ([-600, -599, 0, 1], 100.0),
    ],
    ids=["no wave", "one", "two at once", "two", "in any order", "a night in between"],
)
def test_the_pace_is_that_of_the_last_hour_in_which_waves_ended(
    minutes: list[int], rows_per_second: float | None
) -> None:
    ends = [WaveEnd(NOON + timedelta(minutes=minute), rows=6000, chunks=3) for minute in minutes]
    rate = load_rate(ends)
    assert (None if rate is None else rate.rows_per_second) == rows_per_second
    if rate is not None:
        assert rate.end(since=NOON, chunks=6) == NOON + timedelta(minutes=2)
