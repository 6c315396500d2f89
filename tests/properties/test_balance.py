"""Ten shapes of keys: the largest range holds at most 1.5 times the average, each key is read once."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.planning.keys import choose_keys
from airflow_provider_mssql_cdc.planning.ranges import drive, plan_ranges
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.tsql.snapshot import count_range
from tests.properties.test_key_ranges_server import connect

RANGES = 16


def dense(rows: int, _: random.Random) -> Iterator[tuple[Any, ...]]:
    return ((number - rows // 2,) for number in range(rows))


def sparse(rows: int, rng: random.Random) -> Iterator[tuple[Any, ...]]:
    return ((number,) for number in sorted(rng.sample(range(-(10**15), 10**15), rows)))


def clustered(rows: int, _: random.Random) -> Iterator[tuple[Any, ...]]:
    """Nine tenths of the keys in a thousandth of the span."""
    return ((number if number % 10 else number * 10**6,) for number in range(rows))


def sentinel(rows: int, _: random.Random) -> Iterator[tuple[Any, ...]]:
    return ((2**63 - 1 if number == rows - 1 else number,) for number in range(rows))


def uuids(rows: int, rng: random.Random) -> Iterator[tuple[Any, ...]]:
    for _ in range(rows):
        digits = f"{rng.getrandbits(128):032X}"
        yield (f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}",)


def prefixed(rows: int, _: random.Random) -> Iterator[tuple[Any, ...]]:
    return ((f"urn:company:plant:line:order:{number:09d}",) for number in range(rows))


def composite(leading: int) -> Callable[[int, random.Random], Iterator[tuple[Any, ...]]]:
    def make(rows: int, rng: random.Random) -> Iterator[tuple[Any, ...]]:
        """Leading values of very different weight, spelled in two ways."""
        weights = [1 / (1 + place) for place in range(leading)]
        picked = rng.choices(range(leading), weights, k=rows)
        spell = (str.lower, str.upper)
        return ((spell[number % 2](f"tenant {value}"), number * 3) for number, value in enumerate(picked))

    return make


def bursts(rows: int, _: random.Random) -> Iterator[tuple[Any, ...]]:
    """A thousand rows within 100 µs, then an hour of nothing."""
    for number in range(rows):
        burst, tick = divmod(number, 1000)
        day, hour = divmod(burst, 24)
        yield (f"2024-{1 + day // 28 % 12:02d}-{1 + day % 28:02d}T{hour:02d}:00:00.{tick:07d}",)


SHAPES: dict[str, tuple[str, str, Callable[[int, random.Random], Iterator[tuple[Any, ...]]]]] = {
    "dense": ("k bigint NOT NULL", "k", dense),
    "sparse": ("k bigint NOT NULL", "k", sparse),
    "clustered": ("k bigint NOT NULL", "k", clustered),
    "one sentinel far above": ("k bigint NOT NULL", "k", sentinel),
    "uuid": ("k uniqueidentifier NOT NULL", "k", uuids),
    "varchar with a common prefix": ("k varchar(40) NOT NULL", "k", prefixed),
    "composite, one leading value": ("t varchar(20) NOT NULL, k int NOT NULL", "t, k", composite(1)),
    "composite, three leading values": ("t varchar(20) NOT NULL, k int NOT NULL", "t, k", composite(3)),
    "composite, twenty leading values": ("t varchar(20) NOT NULL, k int NOT NULL", "t, k", composite(20)),
    "datetime2 in bursts": ("k datetime2(7) NOT NULL", "k", bursts),
}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shapes") as running:
        running.enable_cdc()
        yield running


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_cut_into_balanced_ranges(server: EmbeddedSqlServer, shape: str) -> None:
    cut_evenly(server, shape, rows=100_000)


@pytest.mark.soak
@pytest.mark.parametrize("shape", SHAPES)
def test_a_million_keys_of_a_shape_are_cut_into_balanced_ranges(
    server: EmbeddedSqlServer, shape: str
) -> None:
    cut_evenly(server, shape, rows=1_000_000)


def cut_evenly(server: EmbeddedSqlServer, shape: str, *, rows: int) -> None:
    columns, key, make = SHAPES[shape]
    server.execute(f"CREATE TABLE dbo.t ({columns}, PRIMARY KEY ({key}))")
    try:
        keys = list(make(rows, random.Random(7)))
        marks = ", ".join("?" * len(keys[0]))
        server.executemany(f"INSERT INTO dbo.t VALUES ({marks})", keys)
        server.enable_cdc("dbo.t")
        _check(server, rows)
    finally:
        server.execute("EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'")
        server.execute("DROP TABLE dbo.t")


def _check(server: EmbeddedSqlServer, rows: int) -> None:
    with connect(server, "mssql-python") as session:
        described = describe(session, capture_instance="dbo_t")
        chosen = choose_keys(described)
        steps = plan_ranges(described.table, chosen, rows_per_range=rows // RANGES, max_ranges=RANGES)
        with server.count_reads() as reads:
            plan = drive(steps, session.rows)
        assert reads.total("dbo.t") <= rows + 16 * RANGES
        with server.count_reads() as counted:
            sizes = [
                int(session.value(count_range(described.table, chosen.split_by or (), one)))
                for one in plan.ranges
            ]
        assert sum(sizes) == rows
        assert len(sizes) == RANGES
        assert max(sizes) <= 1.5 * rows / len(sizes)
        assert counted.total("dbo.t") <= rows + 8 * RANGES, "a range reads its own rows"
