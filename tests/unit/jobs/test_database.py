"""A whole database by its jobs: few tasks, few sessions, few commits, each table's trouble its own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.packs import read_item
from airflow_provider_mssql_cdc.planning.packs import LABEL_CHARACTERS
from tests.support.database_world import DatabaseWorld, create_table
from tests.support.delta_rows import delta_rows

MakeWorld = Callable[..., DatabaseWorld]


@pytest.fixture
def make_world(server: EmbeddedSqlServer, tmp_path: Path) -> Iterator[MakeWorld]:
    made: list[DatabaseWorld] = []

    def make(**arguments: Any) -> DatabaseWorld:
        made.append(DatabaseWorld(server, tmp_path, **arguments))
        return made[-1]

    yield make
    for world in made:
        world.close()


def pass_the_horizon(server: EmbeddedSqlServer) -> None:
    server.clock.shift(timedelta(seconds=3))
    server.idle()


def options(**by_name: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """``tables=`` with what tests need for all, and ``t3`` standing for ``dbo.t3``."""
    named = {f"dbo.{name}": value for name, value in by_name.items()}
    return {"*.*": {"quiet_seconds": 0, "wait_seconds": 0}, **named}


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_small_tables_are_loaded_by_packs_and_a_large_one_by_ranges(
    server: EmbeddedSqlServer, make_world: MakeWorld, driver: str
) -> None:
    for number in range(5):
        create_table(server, f"dbo.t{number}", rows=number)
    create_table(server, "dbo.large", rows=90)
    world = make_world(driver=driver, tables=options(large={"rows_per_range": 30}))
    report = world.run()
    names = ["dbo.large", *(f"dbo.t{number}" for number in range(5))]
    assert sorted(report.loaded) == names
    assert report.problem(max_failed_tables=0) is None
    kinds = Counter(world.results[key]["item"] >= 0 and key[0] for key in world.results)
    assert kinds == {"read": 3 + 2, "complete": 2, "follow": 2}
    assert not any(world.differs(name) for name in names)

    server.execute("UPDATE dbo.t4 SET name = N'new'")
    server.execute("DELETE FROM dbo.large WHERE id < 40")
    server.execute("INSERT INTO dbo.t0 VALUES (1, NULL)")
    pass_the_horizon(server)
    report = world.run()
    assert (report.loaded, report.followed) == ((), 6)
    assert not any(world.differs(name) for name in names)


def test_a_task_opens_one_session_and_its_facts_are_one_commit(
    server: EmbeddedSqlServer, make_world: MakeWorld, tmp_path: Path
) -> None:
    for number in range(6):
        create_table(server, f"dbo.t{number}")
    world = make_world()
    plan = world.plan()
    assert world.sessions == 1
    assert [len(item.tables) for item in plan.read] == [3, 3]
    for item in plan.read:
        world.read(item)
    assert world.sessions == 3
    facts = str(tmp_path / "ops" / "facts")
    assert DeltaTable(facts).version() == len(plan.read)
    events = Counter(row["event"] for row in delta_rows(facts, columns="event"))
    assert events == {"snapshot_plan": 6, "bootstrap": 6, "merge": 6}


def test_items_are_below_a_kilobyte_however_long_the_names_are(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    for number in range(12):
        create_table(server, f"dbo.t{number:02d}_{'größe' * 20}", rows=1, tracked=False)
        server.enable_cdc(f"dbo.t{number:02d}_{'größe' * 20}", capture_instance=f"i{number}")
    plan = make_world().plan()
    assert all(len(json.dumps(item.to_xcom())) < 1024 for item in plan.read)
    assert len({name for item in plan.read for name in item.names}) == 12
    assert len(plan.read) > 2
    assert LABEL_CHARACTERS == 250


def test_a_table_that_is_added_is_loaded_by_the_next_run_and_one_no_longer_tracked_is_told(
    server: EmbeddedSqlServer, make_world: MakeWorld, tmp_path: Path
) -> None:
    create_table(server, "dbo.a")
    create_table(server, "dbo.b")
    create_table(server, "dbo.c", tracked=False)
    world = make_world()
    assert sorted(world.run().loaded) == ["dbo.a", "dbo.b"]
    server.enable_cdc("dbo.c")
    untrack(server, "b")
    report = world.run()
    assert report.loaded == ("dbo.c",)
    assert report.untracked == {"dbo.b": str(tmp_path / "bronze" / "dbo" / "b")}
    assert report.failed == {}
    assert any("dbo.b is no longer tracked" in line for line in report.lines())
    assert not world.differs("dbo.c")


def untrack(server: EmbeddedSqlServer, table: str) -> None:
    server.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = ?, @capture_instance = N'all'",
        table,
    )


def test_what_is_no_table_of_this_database_is_not_told_as_untracked(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.a")
    create_table(server, "dbo.b")
    make_world().run()
    other = make_world(include=("dbo.a",), exclude=("dbo.b",))
    assert other.run().untracked == {}
    elsewhere = make_world(include=("dbo.a",), bronze=f"{other.folder}/x/{{schema}}/{{table}}")
    assert elsewhere.run().untracked == {}


def test_each_table_that_fails_is_told_with_its_error_and_the_others_are_done(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    for name in ("good", "gap", "drift", "misspelt", "clash", "clashed", "good_too"):
        create_table(server, f"dbo.{name}")
    create_table(server, "dbo.no_key", key="")
    places = {"bronze": "/elsewhere/x", "silver": None}
    world = make_world(
        include=("dbo.*", "nothing.*"),
        tables=options(clash=places, clashed=places, misspelt={"key": ("nope",)}),
    )
    report = world.run()
    assert set(report.failed) == {"nothing.*", "dbo.clash", "dbo.clashed", "dbo.misspelt", "dbo.no_key"}
    assert "matches no table" in report.failed["nothing.*"].message
    assert "dbo.clash and dbo.clashed would share" in report.failed["dbo.clash"].message
    assert report.failed["dbo.no_key"].error == "UnsupportedKey"
    problem = report.problem(max_failed_tables=4)
    assert problem is not None
    assert all(name in problem for name in report.failed)
    assert report.problem(max_failed_tables=5) is None

    lose_changes(server, "gap")
    server.execute("ALTER TABLE dbo.drift ADD more int NULL")
    server.execute("UPDATE dbo.drift SET more = 1")
    server.execute("UPDATE dbo.good SET name = N'new'")
    untrack(server, "drift")
    server.enable_cdc("dbo.drift")
    pass_the_horizon(server)
    for _ in range(2):  # a fatal table is told in every run
        report = world.run()
        assert report.failed["dbo.gap"].error == "RetentionGap"
        assert "resnapshot" in report.failed["dbo.gap"].message
        assert report.failed["dbo.drift"].error in ("SchemaDrift", "RetentionGap")
        assert not world.differs("dbo.good")
        assert not world.differs("dbo.good_too")

    report = world.run(resnapshot=("dbo.gap", "dbo.drift", "dbo.nobody"))
    assert sorted(report.loaded) == ["dbo.drift", "dbo.gap"]
    assert {"dbo.gap", "dbo.drift"}.isdisjoint(world.run().failed)
    assert "resnapshot: dbo.nobody" in report.failed
    assert not world.differs("dbo.gap")
    assert not world.differs("dbo.drift", "id, name, more")


def lose_changes(server: EmbeddedSqlServer, table: str) -> None:
    """Cleanup takes away what bronze has not read yet."""
    for name in ("lost", "kept"):
        server.execute(f"UPDATE dbo.{table} SET name = N'{name}'")
        server.idle()
    server.cleanup(
        f"dbo_{table}", up_to=server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    )


def test_a_table_without_a_grant_fails_alone_with_the_grant_that_is_missing(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.open_")
    create_table(server, "dbo.half")
    create_table(server, "dbo.hidden")
    server.add_login("reader", grants=["SELECT ON dbo.open_", "SELECT ON dbo.half", "SELECT ON SCHEMA::cdc"])
    server.execute("DENY SELECT ON dbo.half (name) TO reader")
    report = make_world(login="reader").run()
    assert report.loaded == ("dbo.open_",)
    assert set(report.failed) == {"dbo.half"}
    assert "GRANT SELECT" in report.failed["dbo.half"].message


def test_a_pack_that_is_tried_again_reads_what_is_left(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    for number in range(4):
        create_table(server, f"dbo.t{number}")
    world = make_world()
    plan = world.plan(max_tasks=4)
    item = next(item for item in plan.read if "dbo.t2" in item.names)
    (beside,) = set(item.names) - {"dbo.t2"}
    server.faults.fail(r"AS \[name\](?s:.*)FROM \[dbo\]\.\[t2\]", 1222)
    first = world.read(item)
    assert set(first["tables"]) == {beside}
    assert (first["failures"]["dbo.t2"]["error"], first["failures"]["dbo.t2"]["retryable"]) == (
        "LockTimeout",
        True,
    )
    version = bronze_version(world, beside)
    again = world.read(item, try_number=2)
    assert again["failures"] == {}
    assert set(again["tables"]) == {beside, "dbo.t2"}
    assert bronze_version(world, beside) == version
    assert not any(world.differs(name) for name in item.names)
    assert world.report(plan).failed == {}


def bronze_version(world: DatabaseWorld, name: str) -> int:
    return DeltaTable(world.database.table_of(name).table.bronze).version()


def test_when_no_server_answers_a_task_does_not_wait_for_each_table(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    for number in range(4):
        create_table(server, f"dbo.t{number}")
    world = make_world()
    plan = world.plan(max_tasks=4)
    world.port, world.sessions = 1, 0
    failed = world.read(plan.read[0])["failures"]
    assert {failure["error"] for failure in failed.values()} == {"ServerUnreachable"}
    assert set(failed) == set(plan.read[0].names)
    assert len(failed) == 2
    assert world.sessions == 1


def test_a_snapshot_that_does_not_fit_waits_for_the_next_run(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.one", rows=30)
    create_table(server, "dbo.two", rows=40)
    create_table(server, "dbo.small")
    world = make_world(tables=options(one={"rows_per_range": 10}, two={"rows_per_range": 10}))
    report = world.run(max_tasks=6)
    assert (report.loaded, report.waiting) == (("dbo.small", "dbo.one"), ("dbo.two",))
    report = world.run(max_tasks=6)
    assert (report.loaded, report.waiting) == (("dbo.two",), ())
    assert not any(world.differs(name) for name in ("dbo.one", "dbo.two", "dbo.small"))


def test_a_cut_by_many_seeks_is_left_to_a_task_of_its_own(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    server.execute("CREATE TABLE dbo.words (id nvarchar(20) NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.executemany("INSERT INTO dbo.words VALUES (?, N'x')", [(f"word {n}",) for n in range(40)])
    server.enable_cdc("dbo.words")
    world = make_world(tables=options(words={"rows_per_range": 1}))
    plan = world.plan(max_tasks=100)
    assert [item.kind for item in plan.read] == ["alone"]
    assert world.read(plan.read[0])["tables"]["dbo.words"]["loaded"] == 40
    assert not world.differs("dbo.words")


def test_a_chunked_table_is_cut_in_one_run_and_read_in_waves_by_the_next_ones(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.huge", rows=60)
    create_table(server, "dbo.small")
    chunked = {"mode": "chunked", "chunk_rows": 10, "chunks_per_wave": 1}
    world = make_world(tables=options(huge=chunked))
    plan = world.plan()
    assert sorted(item.kind for item in plan.read) == ["cut", "pack"]
    for item in plan.read:
        world.read(item)
    loaded: list[str] = []
    for _ in range(3):
        server.execute("UPDATE dbo.huge SET name = name + N'!' WHERE id % 9 = 0")
        server.idle()
        report = world.run(max_waves=2, max_tasks=8)
        assert report.problem(max_failed_tables=0) is None
        loaded += report.loaded
    assert loaded == ["dbo.huge"]
    pass_the_horizon(server)
    world.run()
    assert not world.differs("dbo.huge")


def test_a_new_snapshot_is_taken_once_in_a_run_however_often_its_plan_is_made(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.t0")
    create_table(server, "dbo.large", rows=40)
    world = make_world(tables=options(large={"rows_per_range": 10}))
    world.run()
    server.execute("UPDATE dbo.t0 SET name = N'new'")
    pass_the_horizon(server)
    report = world.run(resnapshot=("dbo.*",))
    assert sorted(report.loaded) == ["dbo.large", "dbo.t0"]
    snapshots = dict.fromkeys(report.loaded, world.results)
    versions = {name: bronze_version(world, name) for name in snapshots}
    plan = world.plan(resnapshot=("dbo.*",), again=True)
    for item in plan.read:
        world.read(item)
    for slot in range(2):
        world.complete(plan, slot)
    assert {name: bronze_version(world, name) for name in versions} == versions


def test_a_task_that_died_is_told_with_its_tables_and_results_of_another_plan_do_not_count(
    server: EmbeddedSqlServer, make_world: MakeWorld
) -> None:
    create_table(server, "dbo.t0")
    create_table(server, "dbo.large", rows=40)
    world = make_world(tables=options(large={"rows_per_range": 10}))
    plan = world.plan()
    for item in plan.read[:3]:
        world.read(item)
    for slot in range(2):
        world.complete(plan, slot)
        world.follow(plan, slot)
    report = world.report(plan)
    assert report.died == {"read[3]": ["dbo.large"], "read[4]": ["dbo.t0"]}
    problem = report.problem(max_failed_tables=99)
    assert problem is not None
    assert "read[4] ended without a result" in problem
    assert report.loaded == ()
    for item in plan.read[3:]:
        world.read(item)
    for slot in range(2):
        world.complete(plan, slot)
    assert sorted(world.report(plan).loaded) == ["dbo.large", "dbo.t0"]
    assert not world.differs("dbo.large")


def test_two_runs_at_once_load_each_table_once(server: EmbeddedSqlServer, make_world: MakeWorld) -> None:
    create_table(server, "dbo.t0")
    create_table(server, "dbo.large", rows=40)
    given = options(large={"rows_per_range": 10})
    one, other = make_world(tables=given), make_world(tables=given)
    other.run_id = 7
    plans = [world.plan() for world in (one, other)]
    for world, plan in zip((one, other), plans, strict=True):
        for item in plan.read:
            world.read(item)
    for world, plan in zip((one, other), plans, strict=True):
        for slot in range(2):
            world.complete(plan, slot)
        assert world.report(plan).problem(max_failed_tables=0) is None
    for name, rows in (("dbo.t0", 5), ("dbo.large", 40)):
        assert len(delta_rows(one.database.table_of(name).table.bronze)) == rows
    assert not one.differs("dbo.large")


def test_what_was_committed_is_announced_also_when_what_follows_fails(
    server: EmbeddedSqlServer, make_world: MakeWorld, tmp_path: Path
) -> None:
    create_table(server, "dbo.no_key", key="")
    world = make_world()
    plan = world.plan()
    outcome = read_item(world.worker("read", 0), plan.read[0])
    assert [one.uri for one in outcome.announcements] == [str(tmp_path / "bronze" / "dbo" / "no_key")]
    assert outcome.failures["dbo.no_key"].error == "UnsupportedKey"
    assert outcome.tables["dbo.no_key"]["loaded"] == 5


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_quiet_tables_cost_a_round_trip_each_and_their_catalog_one_for_all(
    server: EmbeddedSqlServer, make_world: MakeWorld, driver: str
) -> None:
    for number in range(12):
        create_table(server, f"dbo.t{number}")
    world = make_world(driver=driver, tables={})
    world.run()
    server.idle()
    world.run()
    plan = world.plan()
    server.faults.clear_log()
    for slot in range(2):
        told = world.follow(plan, slot)["tables"]
        assert {done["changes"] for done in told.values()} == {0}
    sent = [statement.sql for statement in server.faults.log()]
    assert len(sent) <= 12 + 2 * 7  # a session's own, and the catalog of all its tables


def test_a_quiet_follow_opens_each_delta_table_once_and_looks_each_transaction_up_once(
    server: EmbeddedSqlServer, make_world: MakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look-up reads the log again, which on an object store is a request for each of its commits."""
    for number in range(3):
        create_table(server, f"dbo.t{number}")
    world = make_world(tables={})
    world.run()
    world.run()
    plan = world.plan()
    opened, looked_up = Counter[str](), Counter[tuple[str, str]]()
    open_it, look_up = DeltaTable.__init__, DeltaTable.transaction_version

    def opening(self: DeltaTable, uri: str, *arguments: Any, **named: Any) -> None:
        opened[uri] += 1
        open_it(self, uri, *arguments, **named)

    def looking(self: DeltaTable, app_id: str) -> int | None:
        looked_up[self.table_uri, app_id] += 1
        return look_up(self, app_id)

    monkeypatch.setattr(DeltaTable, "__init__", opening)
    monkeypatch.setattr(DeltaTable, "transaction_version", looking)
    for slot in range(len(plan.follow)):
        told = world.follow(plan, slot)["tables"]
        assert {(done["changes"], done["silver"]) for done in told.values()} == {(0, 5)}
    lake_tables = [uri for uri in opened if "/ops/" not in uri]
    assert len(lake_tables) == 3 * 2
    assert {uri: times for uri, times in opened.items() if times > 1 and uri in lake_tables} == {}
    assert {asked: times for asked, times in looked_up.items() if times > 1} == {}
    assert sum(looked_up.values()) <= 3 * 37
