"""Upkeep of the table of a :class:`ChangesWorld`, and what happens to it meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.upkeep import UpkeepDone, UpkeepOptions, UpkeepOrder, upkeep
from tests.support.changes_world import ChangesWorld
from tests.support.delta_rows import delta_rows
from tests.unit.jobs.test_merge_silver import Lake

LATER = timedelta(minutes=10)
"""By so much upkeep starts later than the commits, so that these are old enough to be folded."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    """``dbo.orders`` with ids 0 to 29, loaded, its horizon passed."""
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(*range(30))
        server.enable_cdc("dbo.orders")
        world.bootstrap()
        world.tick()
        yield world


@pytest.fixture
def lake(world: ChangesWorld) -> Lake:
    lake = Lake(world)
    lake.merged()
    return lake


def follow(lake: Lake, *, rounds: int = 1, merged: bool = True) -> None:
    """Rounds of inserts, updates and deletes, each with a window of changes, and a merge at the end."""
    world = lake.world
    for number in range(rounds):
        world.insert(1000 + secrets.randbelow(10**9))
        world.execute("UPDATE dbo.orders SET amount = ? WHERE id < 5", number)
        world.execute("DELETE FROM dbo.orders WHERE id = (SELECT MIN(id) FROM dbo.orders WHERE id > 5)")
        world.changes()
    if merged:
        lake.merged()


def kept_up(lake: Lake, **asked: Any) -> dict[str, Any]:
    done = upkeep(order(lake, **asked))
    assert isinstance(done, UpkeepDone), done
    return done.to_xcom()


def order(lake: Lake, **asked: Any) -> UpkeepOrder:
    names = {each.name for each in fields(UpkeepOptions)}
    given: dict[str, Any] = {
        "table": lake.table,
        "silver": lake.silver,
        "attempt": lake.world.attempt("upkeep"),
        "options": UpkeepOptions(**{name: asked.pop(name) for name in names & asked.keys()}),
        "started_at": datetime.now(UTC) + LATER,
    }
    return UpkeepOrder(**(given | asked))


def folding(lake: Lake, **asked: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"fold": True, "fold_share": 0.0, "fold_after_hours": 0, "vacuum": False}
    return kept_up(lake, **(given | asked))["bronze"]["fold"]


def rows_of(uri: str) -> list[str]:
    return sorted(str(sorted(row.items())) for row in delta_rows(uri))


def files_of(uri: str) -> int:
    return len(DeltaTable(uri).file_uris())


def built_again(lake: Lake) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows of a silver that is built from bronze alone."""
    other = Lake(lake.world)
    other.silver = f"{lake.silver}-{secrets.token_hex(4)}"
    other.merged()
    return other.rows()


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, module: Any, act: Callable[[], object], *, times: int = 1
) -> None:
    """Let ``act`` happen after the files of a part of upkeep were staged, and before they are committed."""
    stage, left = module.stage, [times]

    def staged(*given: Any, **named: Any) -> Any:
        files = stage(*given, **named)
        if left[0]:
            left[0] -= 1
            act()
        return files

    monkeypatch.setattr(module, "stage", staged)


def repair(world: ChangesWorld) -> None:
    end = world.tick()
    world.interval(end - timedelta(minutes=30), end - timedelta(seconds=1))
