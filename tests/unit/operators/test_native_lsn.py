"""An LSN that Airflow's native rendering has changed is the same LSN."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_mssql_cdc.operators._base import as_lsn, lsn

TEXT = "0x0000002A000001F00003"


@pytest.mark.parametrize("given", [TEXT, int(TEXT, 16), bytes.fromhex(TEXT[2:])])
def test_text_number_and_bytes_are_one_lsn(given: Any) -> None:
    assert as_lsn(given) == TEXT
    assert lsn(given) is None


@pytest.mark.parametrize("given", [0, -1, True, 1 << 80, 1.5, b"\0" * 10, b"\1" * 9, None, "42"])
def test_what_is_no_lsn_is_refused_clearly(given: Any) -> None:
    problem = lsn(given)
    assert problem is not None
    assert "0x and 20 hex digits" in problem
