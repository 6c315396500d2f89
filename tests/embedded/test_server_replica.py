"""A replica behind: tables and change tables as of one redo point."""

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.embedded.drivers import DRIVERS, connected, driver_error, fetch, run


@pytest.fixture
def server():
    with EmbeddedSqlServer() as server:
        server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
        server.enable_cdc("dbo.t")
        server.execute("INSERT dbo.t VALUES (1)")
        yield server


STATE = "SELECT (SELECT COUNT(*) FROM dbo.t), (SELECT COUNT(*) FROM cdc.dbo_t_CT), sys.fn_cdc_get_max_lsn()"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_held_replica_shows_tables_and_changes_of_one_moment(server, driver):
    replica = server.replica()
    with (
        connected(driver, server.airflow_connection()) as primary,
        connected(driver, replica.airflow_connection()) as secondary,
    ):
        assert fetch(primary, STATE) == fetch(secondary, STATE)
        replica.hold()
        before = fetch(secondary, STATE)
        server.execute("INSERT dbo.t VALUES (2)")
        assert fetch(secondary, STATE) == before
        assert fetch(primary, STATE)[0][:2] == (2, 2)
        assert fetch(primary, STATE)[0][2] > before[0][2]
        replica.catch_up()
        assert fetch(secondary, STATE) == fetch(primary, STATE)
        server.execute("INSERT dbo.t VALUES (3)")
        assert fetch(secondary, STATE) == fetch(primary, STATE)


def test_what_committed_before_the_hold_is_there(server):
    replica = server.replica()
    server.execute("INSERT dbo.t VALUES (2)")
    replica.hold()
    server.execute("INSERT dbo.t VALUES (3)")
    with connected("pymssql", replica.airflow_connection()) as secondary:
        assert fetch(secondary, "SELECT id FROM dbo.t ORDER BY id") == [(1,), (2,)]
        replica.redo()
        server.execute("INSERT dbo.t VALUES (4)")
        assert fetch(secondary, "SELECT id FROM dbo.t ORDER BY id") == [(1,), (2,), (3,)]


def test_help_and_low_watermark_are_the_replicas_own(server):
    replica = server.replica()
    replica.hold()
    server.execute("INSERT dbo.t VALUES (2)")
    server.execute("DELETE dbo.t")
    server.cleanup()
    low = "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"
    with connected("pymssql", replica.airflow_connection()) as secondary:
        held = fetch(secondary, low)
        server.cleanup(up_to=server.execute("SELECT sys.fn_cdc_get_max_lsn()")[0][0])
        assert fetch(secondary, low) == held
        assert len(fetch(secondary, "EXEC sys.sp_cdc_help_change_data_capture")) == 1
        assert server.execute(low)[0][0] > held[0][0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_replica_is_read_only(server, driver):
    replica = server.replica()
    with connected(driver, replica.airflow_connection()) as secondary, driver_error() as texts:
        run(secondary, "INSERT dbo.t VALUES (9)")
    assert "read-only" in texts[0]


def test_the_same_name_is_the_same_replica_and_another_name_another_one(server):
    assert server.replica() is server.replica("secondary")
    third = server.replica("third")
    server.replica().hold()
    server.execute("INSERT dbo.t VALUES (2)")
    with connected("pymssql", third.airflow_connection()) as connection:
        assert fetch(connection, "SELECT COUNT(*) FROM dbo.t") == [(2,)]
