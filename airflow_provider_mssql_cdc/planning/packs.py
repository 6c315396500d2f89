"""Which mapped task of a run does the work of which tables: packs of small tables, shares of a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from airflow_provider_mssql_cdc.planning.ranges import range_count

ITEM_BYTES = 1000
"""A mapped item, as JSON, stays below 1 KB; what is around its names takes the rest."""

LABEL_CHARACTERS = 250
"""``rendered_map_index`` of Airflow's ``task_instance`` is a varchar(250)."""

TABLE_ROWS = 10_000
"""What a table costs however small it is: its round trips and commits, as rows that could be read instead."""

PACK_ROWS = 1_000_000
"""A pack that reads this much is worth a separate task."""

ROWS_PER_SECOND = 20_000
"""Turns the seconds that a table took last time into rows."""

_FEWEST_TASKS = 4


def cost(rows: int | None, seconds: float | None = None) -> int:
    """What a table weighs in its pack, in rows.

    :param rows: as the server estimates them; None where it does not tell.
    :param seconds: what the table took last time; a hint.
    """
    read = PACK_ROWS if rows is None else max(rows, 0)
    return TABLE_ROWS + max(read, round((seconds or 0.0) * ROWS_PER_SECOND))


@dataclass(slots=True)
class _Pack:
    """Names, what they cost together, and the bytes that they take in an item."""

    names: list[str] = field(default_factory=list)
    cost: int = 0
    size: int = 0


def pack(
    costs: Mapping[str, int],
    *,
    packs: int,
    sizes: Mapping[str, int] | None = None,
    item_bytes: int = ITEM_BYTES,
) -> list[list[str]]:
    """Spread tables over ``packs`` packs, the most expensive first, each to the pack that has least yet.

    Fewer packs when there are fewer tables; more where those of one would not fit into its item.

    :param sizes: bytes that each table takes in an item; None where items do not hold them.
    :param item_bytes: what the tables of one pack may take.
    """
    if packs < 1:
        raise ValueError(f"packs must be >= 1, got {packs}")
    found = [_Pack() for _ in range(min(packs, len(costs)))]
    for name in sorted(costs, key=lambda name: (-costs[name], name)):
        size = 0 if sizes is None else sizes[name]
        fitting = [one for one in found if not one.names or one.size + size <= item_bytes]
        if not fitting:
            fitting = [_Pack()]
            found += fitting
        chosen = min(fitting, key=lambda one: one.cost)
        chosen.names.append(name)
        chosen.cost += costs[name]
        chosen.size += size
    return [one.names for one in sorted(found, key=lambda one: -one.cost)]


def wanted_packs(costs: Mapping[str, int], *, at_least: int) -> int:
    """How many packs these tables are worth: as many as run in parallel, more when there is more to do."""
    return max(1, min(len(costs), max(at_least, -(-sum(costs.values()) // PACK_ROWS))))


def label_of(names: Sequence[str], *, prefix: str = "") -> str:
    """The names of a mapped task's tables, as many as fit into what the UI shows."""
    label = prefix + ", ".join(names)
    if len(label) <= LABEL_CHARACTERS:
        return label
    for shown in range(len(names) - 1, 0, -1):
        label = f"{prefix}{', '.join(names[:shown])} and {len(names) - shown} more"
        if len(label) <= LABEL_CHARACTERS:
            return label
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{(prefix + names[0])[: LABEL_CHARACTERS - len(more) - 1]}…{more}"


def largest_range_count(max_tasks: int) -> int:
    """Ranges that one table may have in a run: what is always left for the first one beside all others."""
    return max(1, max_tasks // 2)


def ranges_wanted(rows: int | None, *, rows_per_range: int, max_ranges: int, max_tasks: int) -> int:
    """How many mapped tasks a whole snapshot of so many rows wants; 1 makes it part of a pack."""
    return range_count(rows, rows_per_range, min(max_ranges, largest_range_count(max_tasks)))


@dataclass(frozen=True, slots=True)
class Shares:
    """How a run's mapped tasks are shared out.

    :param ranges: tables whose whole snapshot is planned in this run, largest first.
    :param waves: tasks for each chunked table.
    :param packs: for all small tables together.
    :param waiting: tables that wait for the next run.
    """

    ranges: tuple[str, ...]
    waves: Mapping[str, int]
    packs: int
    waiting: tuple[str, ...]


def share_out(
    *, packs: int, ranges: Mapping[str, int], waves: Mapping[str, int], max_tasks: int, max_waves: int
) -> Shares:
    """Share ``max_tasks`` mapped tasks among all tables.

    A quarter is kept for packs and for waves each, if they want so much, so that none waits for ever behind
    large ones. The ranges of a whole snapshot are all there or it waits: half a snapshot cannot be committed.

    :param packs: how many the small tables are worth.
    :param ranges: by table, how many its whole snapshot wants.
    :param waves: by table, how many are missing, at most as many as it allows in a run.
    """
    if max_tasks < _FEWEST_TASKS:
        raise ValueError(f"max_tasks must be >= {_FEWEST_TASKS}, got {max_tasks}")
    quarter = max_tasks // 4
    kept_packs = min(packs, quarter)
    wave_limit = min(max_waves, sum(waves.values()))
    kept_waves = min(wave_limit, quarter)
    left = max_tasks - kept_packs - kept_waves
    chosen, waiting = [], []
    for name in sorted(ranges, key=lambda name: (-ranges[name], name)):
        if ranges[name] <= left:
            chosen.append(name)
            left -= ranges[name]
        else:
            waiting.append(name)
    more_packs = min(packs - kept_packs, left)
    more_waves = min(wave_limit - kept_waves, left - more_packs)
    shared = _even_shares(waves, kept_waves + more_waves)
    waiting += [name for name in waves if not shared.get(name)]
    return Shares(tuple(chosen), shared, kept_packs + more_packs, tuple(waiting))


def _even_shares(wanted: Mapping[str, int], total: int) -> dict[str, int]:
    """One after the other in turn, until all have what they want or nothing is left."""
    given = dict.fromkeys(wanted, 0)
    while total > 0:
        hungry = [name for name in wanted if given[name] < wanted[name]]
        if not hungry:
            break
        for name in hungry[:total]:
            given[name] += 1
        total -= min(total, len(hungry))
    return {name: count for name, count in given.items() if count}
