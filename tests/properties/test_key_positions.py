"""A key column of each type as the first, a middle and the last one of a key, beside columns that repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.source.settings import DriverName
from tests.properties.test_key_ranges_server import DRIVERS, Cut, Table, tiled
from tests.support.key_values import KEY_VALUES

ROWS = 60
PER_RANGE = 12
KEYS = (("x", "p", "q"), ("p", "x", "q"), ("p", "q", "x"))
SPELLINGS = (str.lower, str.upper, str.title)
_SCALES_BETWEEN = tuple(f"({scale})" for scale in (1, 2, 4, 5, 6))


def between_others(declared: str) -> bool:
    """A time of a scale between others: as a key's only column it is cut in test_key_ranges_server.py."""
    return "time" in declared and declared.endswith(_SCALES_BETWEEN)


TYPES = {name: values for name, values in KEY_VALUES.items() if not between_others(name)} | {"bit": [0, 1]}


def key_rows(values: list[Any]) -> list[tuple[Any, ...]]:
    """``x`` of the type, ``p`` one of three spellings of three names, ``q`` a number that makes it unique."""
    spread = [values[number * 7 % len(values)] for number in range(ROWS)]
    names = [SPELLINGS[number % 3](f"tenant {number % 3}") for number in range(ROWS)]
    return [
        (spread[number], names[(number * 5) % ROWS], number // 4 * 2**40 + number) for number in range(ROWS)
    ]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


def refused(cut: Cut, server: EmbeddedSqlServer, table: Table, key: tuple[str, ...]) -> list[str]:
    """What is wrong with a cut."""
    sizes = [len(rows) for rows in cut.rows]
    once = Counter(number for rows in cut.rows for number in rows) == Counter(range(ROWS))
    order = ", ".join(key)
    ntile = server.execute(f"SELECT v, NTILE({len(sizes)}) OVER (ORDER BY {order}) FROM dbo.{table.name}")
    same = {number: tile - 1 for number, tile in ntile} == {
        number: index for index, rows in enumerate(cut.rows) for number in rows
    }
    problems = {
        "a row is missing or doubled": not once,
        f"sizes are {sizes}": sizes != tiled(ROWS, ROWS // PER_RANGE),
        "bounds are not NTILE's": not same,
        f"planning read {cut.keys_read} keys": cut.keys_read > ROWS + 3 * 3 * len(sizes),
        f"ranges read {cut.rows_read} rows": any(
            read > size + 2 * 3 for read, size in zip(cut.rows_read, sizes, strict=True)
        ),
    }
    return [problem for problem, is_there in problems.items() if is_there]


def driver_of(declared: str, turn: int) -> DriverName:
    """The drivers take turns: each reads every kind of type somewhere."""
    return DRIVERS[(list(TYPES).index(declared) + turn) % len(DRIVERS)]


@pytest.mark.parametrize("declared", TYPES)
def test_a_type_is_cut_wherever_it_stands_in_the_key(server: EmbeddedSqlServer, declared: str) -> None:
    columns = f"x {declared} NOT NULL, p varchar(20) NOT NULL, q bigint NOT NULL"
    table = Table(server, columns, key_rows(TYPES[declared]), "")
    for key in KEYS:
        server.execute(f"CREATE UNIQUE INDEX i{''.join(key)} ON dbo.{table.name} ({', '.join(key)})")
    for turn, key in enumerate(KEYS):
        driver = driver_of(declared, turn)
        cut = table.cut(driver, split_by=key, rows_per_range=PER_RANGE, max_ranges=99)
        assert refused(cut, server, table, key) == [], (driver, key)


@pytest.mark.parametrize("declared", TYPES)
def test_null_and_repeats_of_a_type_stay_together(server: EmbeddedSqlServer, declared: str) -> None:
    """On a heap: a value is never split between ranges, and NULL is a value."""
    values = TYPES[declared][:5]
    rows = [
        (None if number % 4 == 3 else values[number % len(values)], number % 3 or None)
        for number in range(ROWS)
    ]
    table = Table(server, f"x {declared} NULL, n tinyint NULL", rows, "")
    for turn, split in enumerate((("n", "x"), ("x", "n"))):
        cut = table.cut(driver_of(declared, turn), split_by=split, rows_per_range=7, max_ranges=99)
        assert Counter(number for found in cut.rows for number in found) == Counter(range(ROWS))
        assert len(cut.rows) > 2
        ranks = f"SELECT v, DENSE_RANK() OVER (ORDER BY {', '.join(split)}) FROM dbo.{table.name}"
        rank = dict(server.execute(ranks))
        where: dict[int, set[int]] = {}
        for index, found in enumerate(cut.rows):
            for number in found:
                where.setdefault(rank[number], set()).add(index)
        assert all(len(ranges) == 1 for ranges in where.values())


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("varchar(8000)", ["x" * 5000 + f"\t{number:02d}" + "y" * 2990 for number in range(20)]),
        ("nvarchar(4000)", ["ж" * 3990 + f"\n{number:02d}\0" for number in range(20)]),
        ("varbinary(8000)", [b"\0" * 7990 + bytes([number]) for number in range(20)]),
        ("varchar(30) COLLATE Japanese_CI_AS", [f"注文{number:02d}ｶﾅ" for number in range(20)]),
        ("char(30) COLLATE Chinese_PRC_CI_AS", [f"订单{number:02d}" for number in range(20)]),
        ("varchar(30) COLLATE Korean_Wansung_CI_AS", [f"주문{number:02d}" for number in range(20)]),
        (
            "varchar(60) COLLATE Latin1_General_100_CI_AS_SC_UTF8",
            [f"🚀{number:02d}ß" for number in range(20)],
        ),
        ("varchar(9) COLLATE Latin1_General_CI_AS", [f"\x81{number:02d}" for number in range(20)]),
        (
            "nvarchar(9) COLLATE Latin1_General_CI_AI",
            [f"{'eéEÉ'[number % 4]}{number:02d}" for number in range(20)],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_long_or_foreign_text_bounds_a_range(
    server: EmbeddedSqlServer, driver: DriverName, declared: str, values: list[Any]
) -> None:
    table = Table(server, f"k {declared} NOT NULL", [(value,) for value in values[::-1]], "")
    cut = table.cut(driver, split_by=("k",), rows_per_range=4, max_ranges=9)
    assert cut.plan.method == "keyset"
    assert [sorted(rows, reverse=True) for rows in cut.rows] == [
        list(range(19 - first, 15 - first, -1)) for first in range(0, 20, 4)
    ]
