"""What the facts rows of many tables add up to: one line per table, worst first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_provider_mssql_cdc.model.facts import Event, FactsRow
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.overview import TableOverview, overviews

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
FIRST, SECOND, POSITION = Lsn(10 << 32), Lsn(90 << 32), Lsn(40 << 32)


def row(event: Event, minute: int, *, table: str = "orders", **known: Any) -> FactsRow:
    target = f"/lake/{'silver' if event in ('merge', 'reconcile') else 'bronze'}/{table}"
    written = NOON + timedelta(minutes=minute)
    return FactsRow(event=event, target=target, source=f"erp.dbo.{table}", written_at=written, **known)


def seen(*rows: FactsRow, waves: Sequence[tuple[Lsn, int]] = ()) -> TableOverview:
    [found] = overviews(rows, {("/lake/bronze/orders", lsn): count for lsn, count in waves})
    return found


BOOTSTRAP = row("bootstrap", 5, snapshot=FIRST, rows=7, end_lsn=FIRST, end_commit_ts=NOON)
PLAN = row("snapshot_plan", 1, snapshot=FIRST, detail={"ranges": 3})
CHANGES = row(
    "changes",
    9,
    end_lsn=POSITION,
    end_commit_ts=NOON + timedelta(minutes=8),
    retention_headroom_hours=71.5,
    dag_id="follow",
)
GAP = row("gap", 20, end_lsn=SECOND, lost_from_ts=NOON, lost_to_ts=NOON + timedelta(hours=3))
RESNAPSHOT = row("resnapshot", 30, snapshot=SECOND, rows=9, end_lsn=SECOND)
AGAIN = row("snapshot_open", 25, snapshot=SECOND)


def test_a_comparison_belongs_to_its_table_and_is_none_of_its_own() -> None:
    proof = row("reconcile", 40, detail={"missing": 1, "extra": 0, "different": 2, "unexplained": 0})
    found = seen(BOOTSTRAP, CHANGES, proof)
    assert (found.reconciled_at, found.differences) == (proof.written_at, 3)
    assert seen(BOOTSTRAP, CHANGES).differences is None


def proof_of(minute: int, number: int, missing: int, **known: Any) -> FactsRow:
    detail = {"item": "tile", "number": number, "missing": missing, "extra": 0}
    return row("reconcile", minute, detail=detail, **{"run_id": "run 2", **known})


def test_differences_are_those_of_every_part_of_the_newest_run_each_once() -> None:
    parts = [proof_of(40, 1, 5), proof_of(41, 2, 1), proof_of(42, 1, 3), proof_of(43, 3, 0)]
    assert seen(BOOTSTRAP, CHANGES, *parts).differences == 4
    assert seen(BOOTSTRAP, CHANGES, *parts, proof_of(50, 1, 0, run_id="run 3")).differences == 0


def test_a_comparison_of_rows_that_a_snapshot_has_replaced_says_nothing() -> None:
    known = seen(BOOTSTRAP, CHANGES, RESNAPSHOT, proof_of(40, 1, 5, snapshot=FIRST))
    assert (known.reconciled_at, known.differences) == (None, None)
    assert seen(BOOTSTRAP, CHANGES, RESNAPSHOT, proof_of(40, 1, 5, snapshot=SECOND)).differences == 5


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        pytest.param([PLAN], "loading", id="planned, nothing complete"),
        pytest.param([PLAN, BOOTSTRAP], "loaded", id="complete, no changes yet"),
        pytest.param([PLAN, BOOTSTRAP, CHANGES], "following", id="changes above the snapshot"),
        pytest.param([PLAN, BOOTSTRAP, CHANGES, GAP], "gap", id="changes were lost"),
        pytest.param([BOOTSTRAP, CHANGES, GAP, AGAIN], "gap", id="lost, and a new snapshot is not complete"),
        pytest.param([BOOTSTRAP, CHANGES, GAP, RESNAPSHOT], "loaded", id="lost, and loaded again"),
        pytest.param([BOOTSTRAP, CHANGES, AGAIN], "loading", id="loaded again next to changes"),
        pytest.param([BOOTSTRAP, RESNAPSHOT, AGAIN, CHANGES], "loaded", id="changes older than the snapshot"),
    ],
)
def test_the_state_is_that_of_the_newest_events(rows: list[FactsRow], state: str) -> None:
    assert seen(*rows).state == state
    assert seen(*reversed(rows)).state == state


def test_a_table_that_follows_says_how_far_it_is() -> None:
    merge = row("merge", 10, rows=8, detail={"consistent": True})
    found = seen(PLAN, BOOTSTRAP, CHANGES, merge)
    assert (found.position, found.headroom_hours, found.dag_id) == (POSITION, 71.5, "follow")
    assert (found.snapshot, found.snapshot_rows, found.loading, found.parts) == (FIRST, 7, None, None)
    assert (found.silver, found.silver_rows, found.consistent) == ("/lake/silver/orders", 8, True)
    assert found.lag_seconds(NOON + timedelta(minutes=10)) == 120


def test_a_chunked_load_says_how_many_waves_are_there() -> None:
    plan = row("snapshot_plan", 2, snapshot=SECOND, detail={"waves": 4, "chunks": 16})
    found = seen(plan, AGAIN, BOOTSTRAP, waves=[(SECOND, 3), (FIRST, 2)])
    assert (found.state, found.loading, found.parts_done, found.parts) == ("loading", SECOND, 3, 4)


def test_a_whole_load_says_how_many_ranges_were_planned() -> None:
    found = seen(PLAN)
    assert (found.loading, found.parts_done, found.parts) == (FIRST, None, 3)


def test_what_was_lost_is_shown_until_it_was_loaded_again() -> None:
    assert (seen(BOOTSTRAP, GAP).lost_from, seen(BOOTSTRAP, GAP).lost_to) == (
        GAP.lost_from_ts,
        GAP.lost_to_ts,
    )
    assert seen(BOOTSTRAP, GAP, RESNAPSHOT).lost_from is None
    assert [seen(BOOTSTRAP, GAP).is_in_trouble, seen(BOOTSTRAP, GAP, RESNAPSHOT).is_in_trouble] == [
        True,
        False,
    ]


def test_the_worst_table_comes_first_and_among_equals_the_one_with_the_least_headroom() -> None:
    def followed(name: str, hours: float | None) -> list[FactsRow]:
        return [
            row("bootstrap", 5, table=name, snapshot=FIRST),
            row("changes", 9, table=name, end_lsn=POSITION, retention_headroom_hours=hours),
        ]

    rows = [
        *followed("quiet", None),
        *followed("late", 3.0),
        *followed("early", 70.0),
        row("bootstrap", 5, table="lost", snapshot=FIRST),
        row("gap", 6, table="lost"),
        row("snapshot_open", 5, table="begun", snapshot=FIRST),
        row("bootstrap", 5, table="done", snapshot=FIRST),
    ]
    order = [found.source.removeprefix("erp.dbo.") for found in overviews(rows, {})]
    assert order == ["lost", "begun", "done", "late", "early", "quiet"]


def test_two_bronze_tables_of_one_source_are_two_lines() -> None:
    other = FactsRow(event="bootstrap", target="/b", source=BOOTSTRAP.source, snapshot=FIRST, written_at=NOON)
    assert {found.bronze for found in overviews([BOOTSTRAP, other], {})} == {"/lake/bronze/orders", "/b"}


def test_json_holds_plain_types_and_the_lag() -> None:
    shown = seen(BOOTSTRAP, CHANGES).to_json(NOON + timedelta(minutes=9))
    assert (shown["position"], shown["lag_seconds"]) == (POSITION.text, 60.0)
    assert {type(value) for value in shown.values()} <= {str, int, float, bool, type(None)}
