"""Who wins: the truth table of a whole snapshot's commit, and the rules of coverage."""

from __future__ import annotations

import itertools

import pytest

from airflow_provider_mssql_cdc.errors import CommitConflict, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.coverage import (
    extended,
    is_proven_gap,
    is_usable,
    refuse_superseded,
    started_at,
)
from airflow_provider_mssql_cdc.planning.snapshots import (
    AddSnapshot,
    AlreadyStored,
    coverage_after,
    decide_snapshot_commit,
)

S = 50
ADD, REBASE = AddSnapshot(rebase=False), AddSnapshot(rebase=True)
SUPERSEDED = "superseded"


def state(stored: int | None, base: int | None, changes: int | None) -> BronzeState:
    coverage = None if base is None or changes is None else Coverage(Lsn(base), Lsn(changes))
    return BronzeState(7, snapshot=None if stored is None else Lsn(stored), coverage=coverage)


def keep(stored: int) -> AlreadyStored:
    return AlreadyStored(Lsn(stored))


# stored snapshot, coverage (base, changes], resnapshot, proven gap → decision about S = 50
TRUTH = [
    # nothing stored yet
    (None, None, None, False, False, REBASE),
    (None, None, None, True, False, REBASE),
    (None, None, None, False, True, REBASE),
    # changes were told to start before S, without a snapshot
    (None, 10, 40, False, False, ADD),
    (None, 10, 90, False, False, ADD),
    (None, 50, 50, False, False, ADD),
    (None, 10, 40, False, True, REBASE),
    (None, 10, 40, True, True, REBASE),
    # changes begin above S: nothing continues it
    (None, 60, 60, False, False, SUPERSEDED),
    (None, 60, 90, True, False, SUPERSEDED),
    # a gap that lies above S is none for S
    (None, 60, 90, True, True, SUPERSEDED),
    (None, 10, 50, True, True, ADD),
    # an older snapshot is stored
    (30, 30, 30, False, False, keep(30)),
    (30, 30, 30, False, True, keep(30)),
    (30, 30, 40, True, False, ADD),
    (30, 30, 90, True, False, ADD),
    (30, 30, 40, True, True, REBASE),
    (30, 30, 90, True, True, ADD),
    (30, 60, 90, True, False, SUPERSEDED),
    # the same one, or a newer one, is stored
    (50, 50, 50, False, False, keep(50)),
    (50, 50, 50, True, False, keep(50)),
    (50, 50, 90, True, True, keep(50)),
    (70, 70, 70, False, False, keep(70)),
    (70, 70, 70, True, False, keep(70)),
    (70, 30, 70, True, True, keep(70)),
    # a snapshot without coverage: what is committed next begins it
    (30, None, None, True, False, REBASE),
]


@pytest.mark.parametrize(("stored", "base", "changes", "resnapshot", "gap", "decision"), TRUTH)
def test_a_snapshot_is_committed_kept_out_or_refused(
    stored: int | None, base: int | None, changes: int | None, resnapshot: bool, gap: bool, decision: object
) -> None:
    found = state(stored, base, changes)
    if decision is SUPERSEDED:
        with pytest.raises(Superseded, match="start a new run"):
            decide_snapshot_commit(found, Lsn(S), resnapshot=resnapshot, gap=gap)
    else:
        assert decide_snapshot_commit(found, Lsn(S), resnapshot=resnapshot, gap=gap) == decision


def every_state() -> list[BronzeState]:
    """All small states, contradictory ones left out."""
    lsns = [None, 30, 50, 70]
    found = []
    for stored, base, changes in itertools.product(lsns, lsns, lsns):
        if (base is None) == (changes is None) and (base is None or changes is None or base <= changes):
            found.append(state(stored, base, changes))
    return found


@pytest.mark.parametrize("found", every_state())
@pytest.mark.parametrize(("resnapshot", "gap"), list(itertools.product([False, True], repeat=2)))
def test_whatever_the_state_no_usable_snapshot_has_a_hole_above_it(
    found: BronzeState, resnapshot: bool, gap: bool
) -> None:
    try:
        decision = decide_snapshot_commit(found, Lsn(S), resnapshot=resnapshot, gap=gap)
    except Superseded:
        assert found.coverage is not None
        assert found.coverage.base > Lsn(S)
        return
    if isinstance(decision, AlreadyStored):
        assert decision.snapshot == found.snapshot
        return
    after = coverage_after(found, Lsn(S), decision=decision)
    committed = BronzeState(8, snapshot=Lsn(S), coverage=after)
    assert is_usable(committed, Lsn(S))
    assert (
        decision.rebase == (after == started_at(Lsn(S)) and after != found.coverage)
        or found.coverage == after
    )
    if found.coverage is not None and not gap:
        assert after == found.coverage, "without a gap coverage is left alone"
    if found.coverage is not None:
        assert after.changes >= found.coverage.changes, "the position never goes back"


def test_two_completes_of_one_state_end_with_one_snapshot() -> None:
    first = decide_snapshot_commit(state(None, None, None), Lsn(40), resnapshot=False, gap=False)
    assert first == REBASE
    second = decide_snapshot_commit(state(40, 40, 40), Lsn(50), resnapshot=False, gap=False)
    assert second == keep(40)


@pytest.mark.parametrize(
    ("after", "until", "expected"),
    [(40, 60, 60), (40, 40, 40), (30, 60, CommitConflict), (50, 60, CommitConflict), (40, 30, ValueError)],
)
def test_coverage_is_extended_by_compare_and_set(after: int, until: int, expected: object) -> None:
    coverage = Coverage(Lsn(10), Lsn(40))
    if isinstance(expected, int):
        assert extended(coverage, after=Lsn(after), until=Lsn(until)) == Coverage(Lsn(10), Lsn(expected))
    else:
        with pytest.raises(expected):  # type: ignore[call-overload]
            extended(coverage, after=Lsn(after), until=Lsn(until))


@pytest.mark.parametrize(
    ("changes", "low", "gap"),
    [(40, 40, False), (40, 41, False), (40, 42, True), (40, 30, False), (40, None, False), (None, 42, False)],
)
def test_a_gap_is_proven_when_the_next_change_has_been_purged(
    changes: int | None, low: int | None, gap: bool
) -> None:
    coverage = None if changes is None else Coverage(Lsn(10), Lsn(changes))
    assert is_proven_gap(coverage, None if low is None else Lsn(low)) is gap


@pytest.mark.parametrize(
    ("stored", "base", "said"),
    [(70, 70, "it was replaced by snapshot"), (None, 70, "changes were started above it")],
)
def test_a_superseded_snapshot_is_told_what_took_its_place(stored: int | None, base: int, said: str) -> None:
    with pytest.raises(Superseded, match=said):
        refuse_superseded(state(stored, base, base), Lsn(S))


@pytest.mark.parametrize(("base", "usable"), [(None, False), (49, True), (50, True), (51, False)])
def test_changes_lead_on_from_a_snapshot_that_is_not_below_the_base(base: int | None, usable: bool) -> None:
    found = state(S, base, base)
    assert is_usable(found, Lsn(S)) is usable
    if usable or base is None:
        refuse_superseded(found, Lsn(S))
