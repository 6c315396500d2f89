"""Decide what upkeep does: which files are written together, and whether bronze can be folded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from airflow_provider_mssql_cdc.model.state import STATE_RULE, BronzeState, SilverPosition


def groups_to_join(sizes: Sequence[int], *, target: int) -> list[range]:
    """Return runs of adjacent files to write again as one each, by index.

    Files of at least half the target are left alone, and so is a file that is larger than the rest of its
    run: so each time a row is written again, its file at least doubles, and rows are written again at most
    log2(target / smallest file) times.

    :param sizes: of all files in the order of their rows, in bytes.
    :param target: size of a full file, in bytes.
    """
    small = groupby(range(len(sizes)), key=lambda index: sizes[index] < target / 2)
    runs = [list(indices) for is_small, indices in small if is_small]
    return [group for run in runs for group in _groups(range(run[0], run[-1] + 1), sizes, target=target)]


def _groups(run: range, sizes: Sequence[int], *, target: int) -> Iterator[range]:
    start, total = run.start, 0
    for index in run:
        total += sizes[index]
        if total >= target:
            yield range(start, index + 1)
            start, total = index + 1, 0
    yield from _worth_it(range(start, run.stop), sizes)


def _worth_it(group: range, sizes: Sequence[int]) -> Iterator[range]:
    """Yield the parts of a group in which no file is larger than the rest together."""
    if len(group) < 2:
        return
    largest = max(group, key=lambda index: sizes[index])
    if sizes[largest] <= sum(sizes[index] for index in group) - sizes[largest]:
        yield group
        return
    yield from _worth_it(range(group.start, largest), sizes)
    yield from _worth_it(range(largest + 1, group.stop), sizes)


def why_not_fold(state: BronzeState, position: SilverPosition | None, *, bronze: int) -> str | None:
    """Return why bronze cannot be folded now, one sentence; None when silver allows it.

    :param position: of the silver that has merged what the fold takes out.
    :param bronze: the number derived from bronze's table id.
    """
    if state.snapshot is None:
        return "bronze holds no complete snapshot"
    if state.unfinished is not None:
        return f"chunked snapshot {state.unfinished} is being loaded; complete or abandon it first"
    if position is None or position.bronze != bronze or position.rule != STATE_RULE:
        return "silver was not built from this bronze; run the merge first"
    if position.snapshot != state.snapshot:
        return (
            f"silver was built from snapshot {position.snapshot}, bronze holds {state.snapshot}; run the "
            "merge first"
        )
    if position.doubled:
        return f"{position.doubled:,} key(s) occur twice in the snapshot; run the merge first"
    return None
