"""Random rounds: a silver that is kept from bronze is proven, whatever is written in the meantime."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.reconcile import Reconciled, reconcile_item
from tests.properties.test_changes_converge import Round
from tests.support.changes_world import ChangesWorld
from tests.unit.jobs.test_reconcile import Reconcile

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_difference_is_found_where_there_is_none(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(-10, 15))
        server.enable_cdc("dbo.orders")
        world.bootstrap()
        writer, reconcile = Round(world, rng), Reconcile(world, rows_per_tile=6)
        reconcile.follow()
        moved = 0
        for _ in range(3):
            writer.write()
            order = reconcile.order()
            items = reconcile.planned(order)
            for item in items:
                first = reconcile_item(order, item, connect=world.session)
                assert not isinstance(first, Reconciled) or not first.found.failed
                if rng.random() < 0.5:
                    writer.write()
                if rng.random() < 0.3:
                    server.capture()
                    reconcile.follow()
            writer.write()
            server.capture()
            reconcile.follow()
            for item in items:
                done = reconcile_item(order, item, connect=world.session)
                assert isinstance(done, Reconciled), done
                assert not done.found.failed, (item, done.found)
                moved += done.found.moved
        assert moved
