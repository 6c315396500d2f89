"""What a login without rights sees of CDC: nothing, and without an error."""

import pytest

from airflow_provider_mssql_cdc.embedded.cdc import lsn
from airflow_provider_mssql_cdc.embedded.seam import SqlError

HELP = "EXEC sys.sp_cdc_help_change_data_capture"
MIN = "SELECT sys.fn_cdc_get_min_lsn('dbo_t')"
TABLE = "SELECT id FROM cdc.dbo_t_CT"


@pytest.fixture
def gated(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20), secret int)")
    server.enable_cdc("dbo.t", role_name="cdc_reader", captured_column_list="id, name")
    server.execute("INSERT dbo.t VALUES (1, N'a', 7)")
    return server


def denied(session, sql):
    with pytest.raises(SqlError) as caught:
        session.rows(sql)
    return caught.value.number


def test_a_login_without_rights_gets_nothing_and_no_error(gated):
    gated.add_login("nobody")
    with gated.session("nobody") as session:
        assert session.rows(HELP) == []
        assert session.rows(MIN) == [(lsn.ZERO,)]
        assert denied(session, TABLE) == 229
        assert session.rows("SELECT sys.fn_cdc_get_max_lsn()")[0][0] is not None


@pytest.mark.parametrize(
    ("roles", "grants"),
    [
        (["cdc_reader"], []),
        ([], ["SELECT ON dbo.t"]),
        (["cdc_reader"], ["SELECT ON dbo.t (id)"]),
    ],
)
def test_role_and_select_on_every_captured_column_are_both_needed(gated, roles, grants):
    gated.add_login("half", roles=roles, grants=grants)
    with gated.session("half") as session:
        assert session.rows(HELP) == []
        assert session.rows(MIN) == [(lsn.ZERO,)]


def test_role_and_the_captured_columns_are_enough_to_see_it_and_the_change_table_needs_its_own_grant(gated):
    gated.add_login("reader", roles=["cdc_reader"], grants=["SELECT ON dbo.t (id, name)"])
    with gated.session("reader") as session:
        assert [row[2] for row in session.rows(HELP)] == ["dbo_t"]
        assert session.rows(MIN)[0][0] > lsn.ZERO
        assert denied(session, TABLE) == 229
    gated.execute("GRANT SELECT ON cdc.dbo_t_CT TO reader")
    with gated.session("reader") as session:
        assert session.rows(TABLE) == [(1,)]


def test_tracked_tables_tell_a_login_that_there_is_something_to_see(gated):
    gated.add_login("half", grants=["SELECT ON dbo.t"])
    with gated.session("half") as session:
        assert session.rows("SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 't'") == [(True,)]


def test_commit_times_are_open_to_every_user_and_the_other_tables_of_schema_cdc_are_not(gated):
    gated.add_login("nobody")
    with gated.session("nobody") as session:
        assert len(session.rows("SELECT start_lsn, tran_end_time FROM cdc.lsn_time_mapping")) == 1
        assert denied(session, "SELECT * FROM cdc.change_tables") == 229


def test_two_instances_one_of_them_out_of_reach(gated):
    gated.enable_cdc("dbo.t", capture_instance="audit", role_name="auditors")
    gated.add_login("reader", roles=["cdc_reader"], grants=["SELECT ON dbo.t"])
    with gated.session("reader") as session:
        assert [row[2] for row in session.rows(HELP)] == ["dbo_t"]


def test_only_owners_enable_tables_and_only_sysadmins_databases(gated):
    gated.add_login("reader", grants=["SELECT ON dbo.t"])
    gated.add_login("owner", roles=["db_owner"])
    with gated.session("reader") as session:
        assert denied(session, "EXEC sys.sp_cdc_enable_db") == 22902
        assert denied(session, "EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL, 'x'") == 22904
        assert denied(session, "EXEC sys.sp_cdc_disable_table 'dbo', 't', 'all'") == 22904
    with gated.session("owner") as session:
        assert [row[2] for row in session.rows(HELP)] == ["dbo_t"]
        session.run("EXEC sys.sp_cdc_enable_table 'dbo', 't', NULL, 'x'")
        assert len(session.rows(HELP)) == 2
