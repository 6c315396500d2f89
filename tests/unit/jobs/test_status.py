"""What ``status`` tells beyond bronze: that nothing continues, that capture stands still, another table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ForeignTable
from tests.support.chunked import ChunkedLoad

pytestmark = pytest.mark.usefixtures("orders")


@pytest.fixture
def load(server: EmbeddedSqlServer, tmp_path: Path) -> ChunkedLoad:
    load = ChunkedLoad(server, tmp_path, instance="dbo_orders")
    load.all()
    pass_time(load)
    load.changes()
    return load


def pass_time(load: ChunkedLoad, **time: float) -> str:
    load.server.clock.shift(timedelta(**(time or {"seconds": 5})))
    reached = load.server.idle()
    assert reached is not None
    return reached


def change_and_purge(load: ChunkedLoad) -> None:
    load.server.execute("UPDATE dbo.orders SET name = 'lost' WHERE id = 1")
    load.server.cleanup(up_to=pass_time(load, days=4))


def test_a_complete_table_that_goes_on_has_nothing_to_note(load: ChunkedLoad) -> None:
    told = load.status(ask_server=True)
    assert (told.state, told.rows, told.note) == ("complete", 300, None)
    assert str(told) == "300 rows in bronze"


def test_changes_that_were_purged_are_told_with_the_way_on(load: ChunkedLoad) -> None:
    change_and_purge(load)
    note = load.status(ask_server=True).note or ""
    assert f"changes above {load.status().position} have been purged" in note
    assert "resnapshot=True" in note
    assert load.status().note is None, "bronze alone cannot tell"


def test_what_another_instance_still_keeps_is_not_lost(load: ChunkedLoad, server: EmbeddedSqlServer) -> None:
    server.execute("UPDATE dbo.orders SET name = 'kept' WHERE id = 1")
    server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2")
    load.table = replace(load.table, capture_instance="dbo_orders_v2")
    assert load.status(ask_server=True).note is None


def test_capture_that_stands_still_is_told(load: ChunkedLoad, server: EmbeddedSqlServer) -> None:
    server.stop_capture()
    server.clock.shift(timedelta(hours=2))
    assert "the capture job looks stopped" in (load.status(ask_server=True).note or "")


def test_the_load_of_another_table_is_not_told_as_this_ones(
    load: ChunkedLoad, server: EmbeddedSqlServer
) -> None:
    server.execute("CREATE TABLE dbo.others (id int NOT NULL PRIMARY KEY)")
    server.enable_cdc("dbo.others")
    load.table = replace(load.table, capture_instance="dbo_others")
    with pytest.raises(ForeignTable):
        load.status(ask_server=True)
