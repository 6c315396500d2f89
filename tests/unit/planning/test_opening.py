"""Which chunked snapshot a run works on, and what may still be committed: tables of states and decisions."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.errors import NotReadyYet, Superseded
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage
from airflow_provider_mssql_cdc.planning.snapshots import (
    AddSnapshot,
    AlreadyStored,
    OpenNew,
    ResumeLoad,
    decide_completion,
    decide_opening,
    decide_run,
)


def state(
    *,
    snapshot: int | None = None,
    opened: int | None = None,
    abandoned: int | None = None,
    coverage: tuple[int, int] | None = None,
) -> BronzeState:
    lsns = [None if number is None else Lsn(number) for number in (snapshot, opened, abandoned)]
    covered = None if coverage is None else Coverage(Lsn(coverage[0]), Lsn(coverage[1]))
    return BronzeState(1, lsns[0], lsns[1], covered, lsns[2])


@pytest.mark.parametrize(
    ("found", "resnapshot", "of_run", "decision"),
    [
        (state(), False, None, OpenNew()),
        (state(coverage=(2, 5)), False, None, OpenNew()),
        (state(opened=3, coverage=(3, 3)), False, None, ResumeLoad(Lsn(3))),
        (state(opened=3, coverage=(3, 3)), True, None, OpenNew()),
        (state(opened=3, coverage=(3, 3)), True, 3, ResumeLoad(Lsn(3))),
        (state(snapshot=3, opened=3, coverage=(3, 9)), False, None, AlreadyStored(Lsn(3))),
        (state(snapshot=3, opened=3, coverage=(3, 9)), True, None, OpenNew()),
        (state(snapshot=3, opened=3, coverage=(3, 9)), True, 3, AlreadyStored(Lsn(3))),
        (state(snapshot=3, opened=7, coverage=(3, 9)), False, None, ResumeLoad(Lsn(7))),
        (state(snapshot=7, opened=3, coverage=(3, 9)), False, None, AlreadyStored(Lsn(7))),
        (state(opened=3, abandoned=3, coverage=(3, 3)), False, None, OpenNew()),
        (state(opened=7, abandoned=3, coverage=(3, 3)), False, None, ResumeLoad(Lsn(7))),
        (state(snapshot=3, opened=7, abandoned=7, coverage=(3, 9)), False, None, AlreadyStored(Lsn(3))),
    ],
)
def test_a_run_goes_on_returns_what_is_there_or_opens(
    found: BronzeState, resnapshot: bool, of_run: int | None, decision: object
) -> None:
    run = None if of_run is None else Lsn(of_run)
    assert decide_run(found, resnapshot=resnapshot, snapshot_of_run=run) == decision


@pytest.mark.parametrize(
    ("found", "snapshot", "gap", "decision"),
    [
        (state(), 5, False, AddSnapshot(rebase=True)),
        (state(coverage=(2, 5)), 6, False, AddSnapshot(rebase=False)),
        (state(coverage=(2, 5)), 6, True, AddSnapshot(rebase=True)),
        (state(coverage=(2, 5)), 4, True, AddSnapshot(rebase=False)),
        (state(snapshot=3, opened=3, coverage=(3, 5)), 4, False, AddSnapshot(rebase=False)),
    ],
)
def test_an_opening_rebases_where_there_is_no_coverage_or_a_proven_gap(
    found: BronzeState, snapshot: int, gap: bool, decision: object
) -> None:
    decided = decide_opening(found, Lsn(snapshot), resnapshot=True, snapshot_of_run=None, gap=gap)
    assert decided == decision


@pytest.mark.parametrize(
    ("found", "snapshot", "error"),
    [
        (state(snapshot=5, coverage=(5, 5)), 5, NotReadyYet),
        (state(opened=5, coverage=(5, 5)), 4, NotReadyYet),
        (state(coverage=(8, 9)), 7, Superseded),
    ],
)
def test_an_opening_that_would_lead_nowhere_fails(
    found: BronzeState, snapshot: int, error: type[Exception]
) -> None:
    with pytest.raises(error):
        decide_opening(found, Lsn(snapshot), resnapshot=True, snapshot_of_run=None, gap=False)


@pytest.mark.parametrize(
    ("found", "decision"),
    [
        (state(opened=5, coverage=(5, 9)), AddSnapshot(rebase=False)),
        (state(opened=7, coverage=(5, 9)), AddSnapshot(rebase=False)),
        (state(snapshot=3, opened=5, coverage=(3, 9)), AddSnapshot(rebase=False)),
        (state(snapshot=5, opened=5, coverage=(5, 9)), AlreadyStored(Lsn(5))),
        (state(snapshot=7, opened=5, coverage=(5, 9)), AlreadyStored(Lsn(7))),
        (state(snapshot=7, opened=5, coverage=(6, 9)), AlreadyStored(Lsn(7))),
        (state(opened=5, abandoned=5, coverage=(5, 9)), Superseded),
        (state(opened=7, coverage=(7, 9)), Superseded),
    ],
)
def test_a_completion_is_added_kept_or_refused(found: BronzeState, decision: object) -> None:
    if isinstance(decision, type):
        with pytest.raises(Superseded):
            decide_completion(found, Lsn(5))
    else:
        assert decide_completion(found, Lsn(5)) == decision
