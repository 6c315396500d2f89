"""sp_cdc_enable_*, sp_cdc_disable_*, the help procedures and the tables of schema cdc."""

import pytest

from airflow_provider_mssql_cdc.embedded.seam import SqlError


def number(server, sql, *parameters):
    """The error number that a statement raises."""
    with pytest.raises(SqlError) as caught:
        server.execute(sql, *parameters)
    return caught.value.number


def columns(session, sql):
    """The column names of a procedure's result."""
    result = next(item for item in session.execute(sql) if hasattr(item, "columns"))
    return [column.name for column in result.columns]


ENABLE = "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{}', @role_name = NULL"


def test_a_database_is_enabled_once_and_says_so(server):
    flag = "SELECT is_cdc_enabled FROM sys.databases WHERE name = N'demo'"
    assert server.execute(flag) == [(False,)]
    server.execute("EXEC sys.sp_cdc_enable_db")
    assert server.execute(flag) == [(True,)]
    assert number(server, "EXEC sys.sp_cdc_enable_db") == 22905


def test_a_table_needs_its_database_enabled_first(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    assert number(server, ENABLE.format("t")) == 22901
    assert number(server, "EXEC sys.sp_cdc_help_change_data_capture") == 22901


def test_a_tracked_table_says_so(tracked):
    tracked.execute("CREATE TABLE dbo.other (id int)")
    flags = tracked.execute(
        "SELECT name, is_tracked_by_cdc FROM sys.tables WHERE schema_id = 1 ORDER BY name"
    )
    assert flags == [("other", False), ("t", True)]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        ("", 22926),
        (", @capture_instance = N'DBO_T'", 22926),
        (f", @capture_instance = N'{'x' * 101}'", 22927),
        (", @capture_instance = N'a', @captured_column_list = N'id, nothing'", 22942),
        (", @capture_instance = N'a', @captured_column_list = N'[id, name'", 22965),
        (", @capture_instance = N'a', @captured_column_list = N'name', @supports_net_changes = 1", 22943),
        (", @capture_instance = N'a', @index_name = N'none'", 22928),
        (", @capture_instance = N'a', @index_name = N'ix_plain'", 22929),
        (", @capture_instance = N'a', @index_name = N'ux_nullable'", 22929),
    ],
)
def test_a_wrong_argument_is_refused_with_sql_servers_number(tracked, tail, expected):
    tracked.execute("CREATE INDEX ix_plain ON dbo.t (amount)")
    tracked.execute("CREATE UNIQUE INDEX ux_nullable ON dbo.t (name)")
    assert number(tracked, ENABLE.format("t") + tail) == expected


def test_a_missing_table_and_a_missing_name_are_refused(tracked):
    assert number(tracked, ENABLE.format("nothing")) == 22931
    assert number(tracked, "EXEC sys.sp_cdc_enable_table NULL, N't', NULL") == 22963
    assert number(tracked, "EXEC sys.sp_cdc_enable_table N'cdc', N'dbo_t_CT', NULL") == 22974


def test_net_changes_need_a_key(server):
    server.execute("CREATE TABLE dbo.heap (id int)")
    server.enable_cdc()
    assert number(server, ENABLE.format("heap") + ", @supports_net_changes = 1") == 22939


def test_reserved_column_names_are_refused_unless_left_out(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, [__$operation] int)")
    server.enable_cdc()
    assert number(server, ENABLE.format("t")) == 22975
    server.enable_cdc("dbo.t", captured_column_list="id")


def test_a_table_has_at_most_two_instances(tracked):
    tracked.enable_cdc("dbo.t", capture_instance="second")
    assert number(tracked, ENABLE.format("t") + ", @capture_instance = N'third'") == 22962


def test_help_lists_every_documented_column_in_order(tracked):
    with tracked.session() as session:
        assert columns(session, "EXEC sys.sp_cdc_help_change_data_capture") == [
            "source_schema",
            "source_table",
            "capture_instance",
            "object_id",
            "source_object_id",
            "start_lsn",
            "end_lsn",
            "supports_net_changes",
            "has_drop_pending",
            "role_name",
            "index_name",
            "filegroup_name",
            "create_date",
            "index_column_list",
            "captured_column_list",
        ]


def test_help_describes_an_instance(server):
    server.execute(
        "CREATE TABLE dbo.t ([order] int, [li]]ne] int, note xml, "
        "CONSTRAINT pk PRIMARY KEY ([li]]ne], [order]))"
    )
    server.enable_cdc("dbo.t", capture_instance="mine", role_name="readers")
    (row,) = server.execute("EXEC sys.sp_cdc_help_change_data_capture N'dbo', N't'")
    assert row[:3] == ("dbo", "t", "mine")
    assert row[3:5] == server.execute("SELECT OBJECT_ID(N'cdc.mine_CT'), OBJECT_ID(N'dbo.t')")[0]
    assert row[6:12] == (None, True, None, "readers", "pk", None)
    assert row[13:] == ("[li]]ne], [order]", "[order], [li]]ne], [note]")
    assert server.execute("SELECT 1 FROM sys.database_principals WHERE name = N'readers' AND type = 'R'") == [
        (1,)
    ]


def test_help_lists_all_instances_or_those_of_one_table(tracked):
    tracked.execute("CREATE TABLE dbo.u (id int PRIMARY KEY)")
    tracked.enable_cdc("dbo.u")
    tracked.enable_cdc("dbo.t", capture_instance="second")
    names = [row[2] for row in tracked.execute("EXEC sys.sp_cdc_help_change_data_capture")]
    assert sorted(names) == ["dbo_t", "dbo_u", "second"]
    of_t = tracked.execute(
        "EXEC sys.sp_cdc_help_change_data_capture @source_schema = 'dbo', @source_name = 't'"
    )
    assert sorted(row[2] for row in of_t) == ["dbo_t", "second"]
    assert number(tracked, "EXEC sys.sp_cdc_help_change_data_capture N'dbo'") == 22972


def test_captured_columns_are_described_by_type(server):
    server.execute(
        "CREATE TABLE dbo.t (id bigint PRIMARY KEY, a decimal(12, 3), b nvarchar(50), c varbinary(max),"
        " d datetime2(3),"
        " e float, f datetime, g uniqueidentifier, h AS id + 1)"
    )
    server.enable_cdc("dbo.t")
    rows = server.execute("EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'DBO_T'")
    assert [row[3:] for row in rows] == [
        ("id", 1, "bigint", None, 19, 10, 0, None, 1),
        ("a", 2, "decimal", None, 12, 10, 3, None, 2),
        ("b", 3, "nvarchar", 50, None, None, None, None, 3),
        ("c", 4, "varbinary", -1, None, None, None, None, 4),
        ("d", 5, "datetime2", None, None, None, None, 3, 5),
        ("e", 6, "float", None, 53, 2, None, None, 6),
        ("f", 7, "datetime", None, None, None, None, 3, 7),
        ("g", 8, "uniqueidentifier", None, None, None, None, None, 8),
        ("h", 9, "bigint", None, 19, 10, 0, None, 9),
    ]
    with server.session() as session:
        assert columns(session, "EXEC sys.sp_cdc_get_captured_columns N'dbo_t'")[-1] == "column_ordinal"


def test_an_unknown_instance_is_an_error_of_its_procedures(tracked):
    assert number(tracked, "EXEC sys.sp_cdc_get_captured_columns N'none'") == 22981


def test_the_tables_of_schema_cdc_describe_the_instances(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    assert tracked.execute(
        "SELECT capture_instance, supports_net_changes, has_drop_pending FROM cdc.change_tables"
    ) == [("dbo_t", True, None)]
    assert tracked.execute(
        "SELECT column_name, column_type, column_ordinal FROM cdc.captured_columns ORDER BY 3"
    ) == [
        ("id", "int", 1),
        ("name", "nvarchar", 2),
        ("amount", "decimal", 3),
    ]
    assert tracked.execute("SELECT column_name, index_ordinal FROM cdc.index_columns") == [("id", 1)]
    assert len(tracked.execute("SELECT * FROM cdc.lsn_time_mapping")) == 1


def test_has_drop_pending_is_shown_as_it_is_set(tracked):
    tracked.execute("UPDATE cdc.change_tables SET has_drop_pending = 1")
    assert tracked.execute("EXEC sys.sp_cdc_help_change_data_capture")[0][8] is True


def test_an_instance_is_disabled_and_the_other_one_goes_on(tracked):
    tracked.enable_cdc("dbo.t", capture_instance="second")
    tracked.execute("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    assert tracked.execute("SELECT id FROM cdc.second_CT") == [(1,)]
    assert number(tracked, "SELECT 1 FROM cdc.dbo_t_CT") == 208
    assert tracked.execute("SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 't'") == [(True,)]


def test_a_table_without_instances_is_a_plain_table_again(tracked):
    tracked.execute("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'all'")
    assert tracked.execute("SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 't'") == [(False,)]
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    assert tracked.execute("SELECT * FROM cdc.lsn_time_mapping") == []
    assert number(tracked, "EXEC sys.sp_cdc_disable_table N'dbo', N't', N'all'") == 22985


def test_an_instance_made_again_under_its_name_is_another_one(tracked):
    before = tracked.execute("EXEC sys.sp_cdc_help_change_data_capture")[0]
    tracked.execute("EXEC sys.sp_cdc_disable_table N'dbo', N't', N'dbo_t'")
    tracked.enable_cdc("dbo.t")
    after = tracked.execute("EXEC sys.sp_cdc_help_change_data_capture")[0]
    assert after[2] == before[2]
    assert after[3] != before[3]
    assert after[5] > before[5]


def test_a_database_is_disabled_with_all_that_belongs_to_cdc(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("EXEC sys.sp_cdc_disable_db")
    assert tracked.execute("SELECT is_cdc_enabled FROM sys.databases WHERE name = N'demo'") == [(False,)]
    assert tracked.execute("SELECT is_tracked_by_cdc FROM sys.tables WHERE name = 't'") == [(False,)]
    assert tracked.execute("SELECT 1 FROM sys.schemas WHERE name = N'cdc'") == []
    tracked.enable_cdc("dbo.t")
    tracked.execute("INSERT dbo.t VALUES (2, N'a', 1)")
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT") == [(2,)]


def test_enabling_that_fails_leaves_nothing_behind(tracked):
    tables = tracked.execute("SELECT COUNT(*) FROM sys.tables")
    assert (
        number(tracked, ENABLE.format("t") + ", @capture_instance = N'a', @captured_column_list = N'x'")
        == 22942
    )
    assert tracked.execute("SELECT COUNT(*) FROM sys.tables") == tables
