"""What is stored in users' tables and returned to their DAGs stays unchanged: golden/stored.txt says what."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.golden_lines import difference, read_sections
from tests.support.stored_world import StoredWorld

pytestmark = pytest.mark.usefixtures("airflow_database")

GOLDEN = Path(__file__).parent / "golden/stored.txt"


def test_all_that_is_stored_or_returned_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedSqlServer(database="shop") as server:
        found = StoredWorld(server, tmp_path, monkeypatch).sections()
    assert (message := difference(read_sections(GOLDEN), found)) == "", message
