"""What cannot be loaded is refused with what to do about it, and nothing has been committed by then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    ConnectionBroken,
    ForeignTable,
    IncompletePlan,
    LoginFailed,
    MssqlCdcError,
    NotReadyYet,
    PermissionDenied,
    PreflightFailed,
    ReplicaBehind,
    RetentionGap,
    SchemaDrift,
    SourceObjectMissing,
    UnsupportedKey,
)
from tests.support.delta_rows import delta_rows
from tests.support.load import Load

MakeLoad = Callable[..., Load]
pytestmark = pytest.mark.usefixtures("orders")


def nothing_written(load: Load) -> bool:
    return not Path(load.table.bronze).exists() and not Path(load.table.facts).exists()


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({"capture_instance": "dbo_ordres"}, SourceObjectMissing, "dbo_orders"),
        ({"source": ("dbo", "customers")}, ConfigurationError, r"dbo\.orders"),
        ({"key": ("nmae",)}, PreflightFailed, "nmae"),
        ({"split_by": ("nmae",)}, PreflightFailed, "nmae"),
        ({"key": ("name",)}, PreflightFailed, "must be NOT NULL"),
        ({"casts": {"nmae": "int"}}, PreflightFailed, "nmae"),
        ({"casts": {"name": "no_such_type"}}, PreflightFailed, "no_such_type"),
        ({"isolation": "snapshot"}, PreflightFailed, "ALLOW_SNAPSHOT_ISOLATION"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_a_wrong_name_is_refused_by_name(
    make_load: MakeLoad, arguments: dict[str, object], error: type[MssqlCdcError], said: str
) -> None:
    load = make_load(**arguments)
    with pytest.raises(error, match=said):
        load.plan()
    assert nothing_written(load)


@pytest.mark.parametrize(
    ("below", "said"),
    [
        ("", "is a file, and a Delta table is a folder"),
        ("/bronze", "no Delta table can be made at .*/bronze"),
    ],
)
def test_a_bronze_path_that_leads_to_a_file_is_refused(
    make_load: MakeLoad, tmp_path: Path, below: str, said: str
) -> None:
    (tmp_path / "notes.txt").write_text("a file")
    load = make_load()
    load.table = replace(load.table, bronze=f"{tmp_path}/notes.txt{below}")
    with pytest.raises(ConfigurationError, match=said):
        load.plan()
    assert not Path(load.table.facts).exists()


def test_every_problem_of_a_table_is_reported_at_once(server: EmbeddedSqlServer, make_load: MakeLoad) -> None:
    server.execute(
        "CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY, place geography NULL, v sql_variant NULL)"
    )
    server.enable_cdc("dbo.odd")
    load = make_load(capture_instance="dbo_odd", split_by=("nowhere",), isolation="snapshot")
    with pytest.raises(PreflightFailed) as caught:
        load.plan()
    text = str(caught.value)
    assert all(name in text for name in ("place", "sql_variant", "nowhere", "ALLOW_SNAPSHOT_ISOLATION"))
    assert len(caught.value.problems) == 4
    assert nothing_written(load)


def test_cdc_that_is_off_is_told_apart_on_database_and_table(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.execute("CREATE TABLE dbo.plain (id int NOT NULL PRIMARY KEY)")
    load = make_load(capture_instance="dbo_plain")
    with pytest.raises(PreflightFailed, match="sp_cdc_enable_table"):
        load.plan()
    server.execute("EXEC sys.sp_cdc_disable_db")
    with pytest.raises(PreflightFailed, match="sp_cdc_enable_db"):
        load.plan()
    assert nothing_written(load)


def test_a_login_without_rights_is_told_the_grant(server: EmbeddedSqlServer, make_load: MakeLoad) -> None:
    server.add_login("loader")
    load = make_load()
    load.login = "loader"
    with pytest.raises((PermissionDenied, SourceObjectMissing), match="GRANT SELECT|SELECT on the captured"):
        load.plan()
    assert nothing_written(load)


def test_the_least_privilege_of_the_documentation_is_enough(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    server.add_login("loader", grants=("SELECT ON dbo.orders", "SELECT ON cdc.dbo_orders_CT"))
    load = make_load()
    load.login = "loader"
    assert load.all().rows == 300


def test_a_wrong_password_and_a_server_that_is_gone_are_two_things(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    load = make_load()
    load.password = "wr@ng:/?#%;{}'"
    with pytest.raises(LoginFailed) as caught:
        load.plan()
    assert "wr@ng" not in str(caught.value)
    load.password = None
    load.port = 1
    with pytest.raises(ConnectionBroken):
        load.plan()
    assert nothing_written(load)


def test_a_bronze_of_another_table_is_refused(server: EmbeddedSqlServer, make_load: MakeLoad) -> None:
    first = make_load()
    first.all()
    version = DeltaTable(first.table.bronze).version()
    server.execute("CREATE TABLE dbo.other (id int NOT NULL PRIMARY KEY, name nvarchar(40) NULL)")
    server.enable_cdc("dbo.other")
    with pytest.raises(ForeignTable, match=r"dbo\.orders"):
        make_load(capture_instance="dbo_other").plan()
    with pytest.raises(ForeignTable):
        make_load(mssql_conn_id="crm").plan()
    assert DeltaTable(first.table.bronze).version() == version


def test_a_column_that_appears_between_plan_and_read_stops_the_read(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    load = make_load()
    planned = load.plan()
    server.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema='dbo', @source_name='orders', @capture_instance='all'"
    )
    server.execute("ALTER TABLE dbo.orders ADD added int NULL")
    server.enable_cdc("dbo.orders")
    with pytest.raises(SchemaDrift, match="added"):
        load.read(planned[0])


@pytest.mark.parametrize("moment", ["before the reads", "before the commit"])
def test_a_snapshot_that_left_retention_is_not_committed(
    server: EmbeddedSqlServer, make_load: MakeLoad, moment: str
) -> None:
    load = make_load()
    planned = load.plan()
    staged = [] if moment == "before the reads" else [load.read(item) for item in planned]
    server.execute("UPDATE dbo.orders SET name = 'a'")
    newest = server.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
    server.execute("UPDATE dbo.orders SET name = 'b'")
    server.cleanup(up_to=newest)
    version = DeltaTable(load.table.bronze).version()
    with pytest.raises(RetentionGap, match="retention"):
        load.complete(staged) if staged else load.read(planned[0])
    assert DeltaTable(load.table.bronze).version() == version
    assert delta_rows(load.table.facts, "event = 'bootstrap'") == []


def test_a_server_that_is_behind_the_plan_is_no_source_for_its_stamp(
    server: EmbeddedSqlServer, make_load: MakeLoad
) -> None:
    replica = server.replica()
    replica.catch_up()
    replica.hold()
    load = make_load()
    server.execute("UPDATE dbo.orders SET name = 'later' WHERE id < 10")
    planned = load.plan()
    load.port = replica.port
    with pytest.raises(ReplicaBehind):
        load.read(planned[0])
    replica.catch_up()
    staged = [load.read(item) for item in planned]
    load.port = server.port
    assert load.complete(staged).rows == 300


def test_bounds_of_another_split_are_not_used(make_load: MakeLoad) -> None:
    planned = make_load().plan()
    with pytest.raises(ConfigurationError, match="cut on other columns"):
        make_load(split_by=("name",)).read(planned[1])


def test_a_key_that_the_user_names_is_counted(server: EmbeddedSqlServer, make_load: MakeLoad) -> None:
    server.execute("CREATE TABLE dbo.people (id int NOT NULL PRIMARY KEY, city nvarchar(20) NOT NULL)")
    server.executemany("INSERT INTO dbo.people VALUES (?, ?)", [(n, f"city {n % 10}") for n in range(100)])
    server.enable_cdc("dbo.people")
    with pytest.raises(UnsupportedKey, match="10 values for 100 rows"):
        make_load(capture_instance="dbo_people", key=("city",)).plan()


def test_a_missing_range_is_named_and_nothing_is_committed(make_load: MakeLoad) -> None:
    load = make_load()
    planned = load.plan()
    staged = [load.read(item) for item in planned if item.index != 1]
    with pytest.raises(IncompletePlan, match=r"range\(s\) 2 of 3 are missing"):
        load.complete(staged)
    assert DeltaTable(load.table.bronze).version() == 0


def test_a_resnapshot_waits_for_capture_to_move(
    server: EmbeddedSqlServer, make_load: MakeLoad, caplog: pytest.LogCaptureFixture
) -> None:
    make_load().all()
    again = make_load(run_id="again")
    with caplog.at_level("INFO"), pytest.raises(NotReadyYet, match="resnapshot needs a later LSN"):
        again.plan(resnapshot=True, wait_seconds=0.1)
    assert caplog.text.count("waiting up to 0.1 s for capture to pass it") == 1
    server.execute("UPDATE dbo.orders SET name = 'moved'")
    assert again.all(resnapshot=True, wait_seconds=0).rows == 300
