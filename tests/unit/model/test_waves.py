"""Waves on their way through XCom: small, exact, and refused when they are something else."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.chunks import PlannedWave, StopEarly, WaveOutcome
from airflow_provider_mssql_cdc.model.lsn import Lsn

S = Lsn.parse("0x00000025000006100001")
STOP = StopEarly(datetime(2024, 5, 11, 2, 0, 0, 123456, tzinfo=UTC), 12.5)


@pytest.mark.parametrize(
    "wave",
    [
        PlannedWave(S, 0, 1),
        PlannedWave(S, 624, 625, more=True, stop=STOP),
        PlannedWave(S, 0, 1, done=True),
        PlannedWave(S, 2, 3, stop=StopEarly(min_headroom_hours=0.0)),
    ],
)
def test_a_wave_comes_back_as_it_went_and_is_small(wave: PlannedWave) -> None:
    text = json.dumps(wave.to_xcom())
    assert PlannedWave.from_xcom(json.loads(text)) == wave
    assert len(text) < 250


@pytest.mark.parametrize("added", [True, False])
def test_an_outcome_comes_back_as_it_went(added: bool) -> None:
    outcome = WaveOutcome.of(PlannedWave(S, 3, 9, more=True), rows=10**10, added=added)
    assert WaveOutcome.from_xcom(json.loads(json.dumps(outcome.to_xcom()))) == outcome


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ("0", "map the task over the plan's output"),
        ({"plan": "0x-1", "index": 0}, 'mode="chunked"'),
        ({"snapshot": S.text, "wave": 3, "waves": 3}, "clear the plan task"),
        ({"snapshot": "0x1", "wave": 0, "waves": 1}, "clear the plan task"),
        ({"wave": 0}, "clear the plan task"),
    ],
)
def test_what_is_no_wave_is_refused(item: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        PlannedWave.from_xcom(item)


@pytest.mark.parametrize("item", [None, [], {"wave": 1}, {"snapshot": S.text, "wave": "x", "waves": 1}])
def test_what_no_wave_returned_is_refused(item: object) -> None:
    with pytest.raises(ConfigurationError):
        WaveOutcome.from_xcom(item)
