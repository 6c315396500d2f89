"""Plans through XCom: small, exact, and nothing else is taken for one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.key_range import (
    Bound,
    KeyRange,
    bound_from_json,
    bound_to_json,
    ranges_between,
)
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import (
    PlanId,
    PlannedRange,
    ReadHorizon,
    StagedFile,
    StagedRange,
    columns_hash,
    run_hash,
)

S = Lsn.parse("0x00000025000005A80003")
PLAN = PlanId.new(S, run_hash("load", "manual__2026-01-01"))

BOUNDS: list[Bound] = [
    ("9223372036854775807",),
    ("-9223372036854775808",),
    ("1.10",),
    ("2024-01-01 00:00:00.1234567",),
    ("0x00FF",),
    ("6F9619FF-8B86-D011-B42D-00C04FC964FF",),
    ("a\0b",),
    (" trailing  ",),
    ("{{ 1/0 }}", None, "🌺"),
    (None,),
    ("",),
]


@pytest.mark.parametrize("bound", BOUNDS)
def test_a_bound_comes_back_from_json_as_it_went(bound: Bound) -> None:
    planned = PlannedRange(PLAN, 3, 16, KeyRange(bound, bound), split="0a1b2c3d", resnapshot=True)
    text = json.dumps(planned.to_xcom())
    assert "\\u0000" not in text
    assert PlannedRange.from_xcom(json.loads(text)) == planned


@pytest.mark.parametrize(
    "values", [7, "text", [7], [{"utf8": "zz"}], [{"hex": "00"}], [["x"]], {"utf8": "00"}]
)
def test_a_bound_of_another_form_is_refused(values: object) -> None:
    with pytest.raises(ValueError):
        bound_from_json(values)


def test_no_bound_is_no_bound() -> None:
    assert bound_from_json(None) is None
    assert bound_to_json(()) == []


def test_an_item_without_bounds_is_small() -> None:
    planned = PlannedRange(PLAN, 0, 1, done=True)
    assert len(json.dumps(planned.to_xcom())) < 200
    assert PlannedRange.from_xcom(planned.to_xcom()) == planned


@pytest.mark.parametrize(
    "item", [None, "x", 7, {}, {"plan": "x"}, {**PlannedRange(PLAN, 0, 1).to_xcom(), "index": 1}]
)
def test_what_is_no_item_of_a_plan_is_refused_with_a_remedy(item: object) -> None:
    with pytest.raises(ConfigurationError, match="key_range must be"):
        PlannedRange.from_xcom(item)


def test_a_plan_id_is_new_each_time_and_reads_back() -> None:
    other = PlanId.new(S, PLAN.run)
    assert other != PLAN
    assert PlanId.parse(other.text) == other
    assert other.run == PLAN.run
    with pytest.raises(ValueError, match="a plan id must be"):
        PlanId.parse("0x25-run-1")


def test_hashes_tell_runs_and_columns_apart() -> None:
    assert run_hash("a", "b") != run_hash("ab", "")
    assert columns_hash((("a", "int"),)) != columns_hash((("a", "bigint"),))


@pytest.mark.parametrize(("bounds", "ranges"), [([], 1), ([("5",)], 2), ([("1",), ("2",), ("3",)], 4)])
def test_inner_bounds_make_one_range_more_than_there_are(bounds: list[Bound], ranges: int) -> None:
    cut = list(ranges_between(bounds))
    assert len(cut) == ranges
    assert cut[0].lower is None
    assert cut[-1].upper is None
    assert [piece.upper for piece in cut[:-1]] == [piece.lower for piece in cut[1:]] == bounds
    assert cut[0].is_whole_table is (ranges == 1)


def test_both_bounds_have_one_value_per_column() -> None:
    with pytest.raises(ValueError, match="one value per split column"):
        KeyRange(("1",), ("1", "2"))


def test_an_outcome_comes_back_from_json_as_it_went() -> None:
    horizon = ReadHorizon(S.incremented(), datetime(2026, 1, 1, 12, 0, 0, 123456, tzinfo=UTC))
    staged = StagedRange(PLAN, 1, 2, rows=7, files=(StagedFile("a.parquet", 10, 7),), horizon=horizon)
    assert StagedRange.from_xcom(json.loads(json.dumps(staged.to_xcom()))) == staged
    nothing = StagedRange.nothing(PlannedRange(PLAN, 0, 2, resnapshot=True))
    assert StagedRange.from_xcom(nothing.to_xcom()) == nothing
    assert nothing.done
    assert nothing.resnapshot


@pytest.mark.parametrize(
    "item", [None, {}, {"plan": PLAN.text, "index": 0, "count": 1, "rows": 0, "files": [["a"]]}]
)
def test_what_no_read_returned_is_refused(item: object) -> None:
    with pytest.raises(ConfigurationError, match="staged must hold"):
        StagedRange.from_xcom(item)


def test_the_later_horizon_wins_in_either_respect() -> None:
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
    merged = ReadHorizon(S.incremented(), early).merged(ReadHorizon(S, late))
    assert merged == ReadHorizon(S.incremented(), late)
