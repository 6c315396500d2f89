"""What DDL on a tracked table does to its capture instances."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest


def rows(server, columns, instance="dbo_t"):
    return server.execute(
        f"SELECT [__$operation], {columns} FROM cdc.[{instance}_CT] "
        "ORDER BY [__$start_lsn], [__$command_id], 1"
    )


def history(server, instance="dbo_t"):
    return server.execute(f"EXEC sys.sp_cdc_get_ddl_history @capture_instance = N'{instance}'")


def captured(server, instance="dbo_t"):
    found = server.execute(f"EXEC sys.sp_cdc_get_captured_columns @capture_instance = N'{instance}'")
    return [row[3] for row in found]


def test_a_column_that_is_added_leaves_the_instance_as_it_was(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("ALTER TABLE dbo.t ADD extra int NULL")
    tracked.execute("INSERT dbo.t VALUES (2, N'b', 2, 3)")
    tracked.execute("UPDATE dbo.t SET extra = 4 WHERE id = 2")
    assert captured(tracked) == ["id", "name", "amount"]
    assert rows(tracked, "id, name") == [(2, 1, "a"), (2, 2, "b")]


def test_a_second_instance_captures_the_column_that_was_added(tracked):
    tracked.execute("ALTER TABLE dbo.t ADD extra int NULL")
    tracked.enable_cdc("dbo.t", capture_instance="dbo_t_v2")
    tracked.execute("INSERT dbo.t VALUES (2, N'b', 2, 3)")
    assert captured(tracked, "dbo_t_v2") == ["id", "name", "amount", "extra"]
    assert rows(tracked, "id, extra", "dbo_t_v2") == [(2, 2, 3)]
    assert rows(tracked, "id, name") == [(2, 2, "b")]


def test_a_column_that_is_dropped_is_null_from_then_on(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("ALTER TABLE dbo.t DROP COLUMN name")
    tracked.execute("INSERT dbo.t VALUES (2, 2)")
    tracked.execute("UPDATE dbo.t SET amount = 9 WHERE id = 1")
    assert captured(tracked) == ["id", "name", "amount"]
    assert rows(tracked, "id, name, amount") == [
        (2, 1, "a", 1),
        (2, 2, None, 2),
        (3, 1, None, 1),
        (4, 1, None, 9),
    ]


def test_changes_that_wait_for_the_capture_keep_a_column_that_is_dropped_meanwhile(tracked):
    tracked.capture_mode = "manual"
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("ALTER TABLE dbo.t DROP COLUMN name")
    tracked.execute("INSERT dbo.t VALUES (2, 2)")
    tracked.capture()
    assert rows(tracked, "id, name") == [(2, 1, "a"), (2, 2, None)]


def test_a_column_that_is_dropped_and_made_again_is_another_one(tracked):
    tracked.execute("ALTER TABLE dbo.t DROP COLUMN name")
    tracked.execute("ALTER TABLE dbo.t ADD name nvarchar(20) NULL")
    tracked.execute("INSERT dbo.t VALUES (1, 1, N'new')")
    assert rows(tracked, "id, name") == [(2, 1, None)]


@pytest.mark.parametrize("mode", ["auto", "manual"])
@pytest.mark.parametrize(
    ("old", "new", "value", "expected"),
    [
        ("int", "bigint", 7, 7),
        ("decimal(10, 2)", "decimal(14, 4)", Decimal("7.25"), Decimal("7.2500")),
        ("decimal(10, 2)", "decimal(30, 2)", Decimal("7.25"), Decimal("7.25")),
        ("datetime", "datetime2(3)", datetime(2026, 5, 1, 12), datetime(2026, 5, 1, 12)),
        ("varchar(10)", "nvarchar(20)", "x", "x"),
        ("char(3)", "char(5)", "x", "x    "),
    ],
)
def test_a_column_whose_type_changes_has_the_new_type_in_old_and_new_changes(
    server, mode, old, new, value, expected
):
    server.execute(f"CREATE TABLE dbo.t (id int PRIMARY KEY, v {old} NULL)")
    server.enable_cdc("dbo.t")
    server.capture_mode = mode
    server.execute("INSERT dbo.t VALUES (1, ?), (2, NULL)", value)
    server.execute(f"ALTER TABLE dbo.t ALTER COLUMN v {new} NULL")
    server.execute("INSERT dbo.t VALUES (3, ?)", value)
    server.capture()
    assert rows(server, "id, v") == [(2, 1, expected), (2, 2, None), (2, 3, expected)]
    assert history(server)[0][3] is True
    name = new.partition("(")[0]
    assert server.execute("SELECT column_type FROM cdc.captured_columns WHERE column_name = 'v'") == [(name,)]
    types = server.execute(
        "SELECT t.name FROM sys.columns AS c JOIN sys.types AS t ON t.user_type_id = c.user_type_id "
        "WHERE c.object_id = OBJECT_ID(N'cdc.dbo_t_CT') AND c.name = N'v'"
    )
    assert types == [(name,)]


def test_history_holds_each_alter_with_its_time_and_an_lsn_that_rises(tracked):
    tracked.time_zone = "Europe/Berlin"
    tracked.clock.freeze(datetime(2026, 1, 1, 12, tzinfo=UTC))
    tracked.execute("ALTER TABLE dbo.t ADD extra int NULL")
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1, 1)")
    tracked.execute("ALTER TABLE dbo.t DROP COLUMN extra")
    first, second = history(tracked)
    assert first[:5] == ("dbo", "t", "dbo_t", False, "ALTER TABLE dbo.t ADD extra int NULL")
    assert first[6] == datetime(2026, 1, 1, 13)
    (commit,) = tracked.execute("SELECT [__$start_lsn] FROM cdc.dbo_t_CT")[0]
    assert first[5] < commit < second[5]
    tracked.execute("CREATE TABLE dbo.other (id int)")
    tracked.execute("ALTER TABLE dbo.other ADD x int")
    assert len(history(tracked)) == 2


def test_a_table_that_is_dropped_takes_its_instances_along(tracked):
    tracked.enable_cdc("dbo.t", capture_instance="second")
    tracked.execute("DROP TABLE dbo.t")
    assert tracked.execute("SELECT * FROM cdc.change_tables") == []
    assert tracked.execute("SELECT name FROM sys.tables WHERE name IN ('dbo_t_CT', 'second_CT')") == []
    tracked.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
    tracked.enable_cdc("dbo.t")
    tracked.execute("INSERT dbo.t VALUES (1)")
    assert rows(tracked, "id") == [(2, 1)]


def test_a_heap_that_an_index_identifies_is_updated_in_place(server):
    server.execute("CREATE TABLE dbo.t (id int NOT NULL, code int NOT NULL)")
    server.execute("CREATE UNIQUE INDEX ux ON dbo.t (code)")
    server.enable_cdc("dbo.t", index_name="ux")
    server.execute("INSERT dbo.t VALUES (1, 1)")
    server.execute("UPDATE dbo.t SET code = 2")
    assert rows(server, "code") == [(2, 1), (3, 1), (4, 2)]


@pytest.mark.parametrize(
    "ddl", ["CREATE INDEX ix ON dbo.t (amount)", "CREATE UNIQUE CLUSTERED INDEX ix ON dbo.t (id)"]
)
def test_an_index_that_is_added_does_not_stop_the_capture(server, ddl):
    server.execute("CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY NONCLUSTERED, amount int)")
    server.enable_cdc("dbo.t")
    server.execute(ddl)
    server.execute("INSERT dbo.t VALUES (1, 1)")
    assert rows(server, "id") == [(2, 1)]


def test_ddl_that_is_rolled_back_leaves_the_capture_as_it_was(tracked):
    tracked.execute("BEGIN TRAN; ALTER TABLE dbo.t DROP COLUMN name; INSERT dbo.t VALUES (1, 1); ROLLBACK")
    tracked.execute("INSERT dbo.t VALUES (2, N'b', 2)")
    assert rows(tracked, "id, name") == [(2, 2, "b")]
    assert history(tracked) == []


def test_the_number_of_a_dropped_last_column_is_not_given_again(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, a int, b int)")
    server.execute("ALTER TABLE dbo.t DROP COLUMN b")
    server.execute("ALTER TABLE dbo.t ADD b int")
    server.execute("ALTER TABLE dbo.t DROP COLUMN a, b")
    server.execute("ALTER TABLE dbo.t ADD c int")
    numbers = server.execute("SELECT name, column_id FROM sys.columns WHERE object_id = OBJECT_ID('dbo.t')")
    assert numbers == [("id", 1), ("c", 5)]
