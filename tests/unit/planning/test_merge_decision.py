"""What a merge has to do: a table of silver's position and bronze's state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage, SilverPosition
from airflow_provider_mssql_cdc.planning.merge import MergeSince, NoSnapshot, Rebuild, UpToDate, decide_merge

THIS, OTHER = 4711, 4712
S, LATER = Lsn(100), Lsn(200)
STATE = BronzeState(version=9, snapshot=S, coverage=Coverage(S, Lsn(150)))
POSITION = SilverPosition(THIS, 7, S, Lsn(140))


@pytest.mark.parametrize(
    ("position", "state", "decided"),
    [
        (None, STATE, Rebuild),
        (POSITION, STATE, MergeSince),
        (replace(POSITION, version=9), STATE, UpToDate),
        (replace(POSITION, version=10), STATE, Rebuild),
        (replace(POSITION, bronze=OTHER), STATE, Rebuild),
        (POSITION, replace(STATE, snapshot=LATER, coverage=Coverage(S, LATER)), Rebuild),
        (POSITION, replace(STATE, snapshot=LATER, coverage=Coverage(LATER, LATER)), Rebuild),
        (POSITION, replace(STATE, open=LATER), MergeSince),
        (POSITION, replace(STATE, open=LATER, coverage=Coverage(LATER, LATER)), NoSnapshot),
        (None, BronzeState(version=1), NoSnapshot),
        (None, BronzeState(version=1, open=S, coverage=Coverage(S, S)), NoSnapshot),
        (None, BronzeState(version=1, coverage=Coverage(S, S)), NoSnapshot),
        (POSITION, replace(STATE, coverage=Coverage(Lsn(120), Lsn(150))), NoSnapshot),
    ],
    ids=[
        "no position",
        "bronze went on",
        "bronze stands where it stood",
        "bronze went back",
        "another bronze",
        "a newer snapshot",
        "a newer snapshot after a gap",
        "a chunked snapshot is being loaded",
        "a chunked snapshot is being loaded after a gap",
        "nothing loaded",
        "the first snapshot is being loaded in chunks",
        "changes without a snapshot",
        "changes begin above the snapshot",
    ],
)
def test_a_merge_is_decided_on_position_and_state(
    position: SilverPosition | None, state: BronzeState, decided: type
) -> None:
    assert isinstance(decide_merge(position, state, bronze=THIS), decided)


def test_silver_that_was_damaged_is_built_anew_and_says_why() -> None:
    decision = decide_merge(POSITION, STATE, bronze=THIS, damage="its version 4 is a RESTORE")
    assert decision == Rebuild("its version 4 is a RESTORE")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (BronzeState(1), "no complete snapshot: run mssql_cdc_bootstrap"),
        (BronzeState(1, open=S, coverage=Coverage(S, S)), f"{S} is being loaded in chunks"),
        (BronzeState(1, coverage=Coverage(S, S)), "it has no complete snapshot"),
        (BronzeState(1, snapshot=S, coverage=Coverage(LATER, LATER)), "resnapshot=True"),
    ],
)
def test_it_says_for_which_snapshot_silver_waits(state: BronzeState, said: str) -> None:
    decision = decide_merge(None, state, bronze=THIS)
    assert isinstance(decision, NoSnapshot)
    assert said in decision.reason
