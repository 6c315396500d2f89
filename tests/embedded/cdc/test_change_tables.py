"""Change tables against expectations written by hand."""

from decimal import Decimal

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.seam import SqlError

ORDER = "[__$start_lsn], [__$command_id], [__$seqval], [__$operation]"


def changes(server, columns="id, name, amount", instance="dbo_t"):
    """Change rows in order: number of the commit, command id, operation, captured columns."""
    rows = server.execute(
        f"SELECT [__$start_lsn], [__$command_id], [__$operation], {columns} "
        f"FROM cdc.[{instance}_CT] ORDER BY {ORDER}"
    )
    commits = {lsn: number for number, lsn in enumerate(sorted({row[0] for row in rows}), start=1)}
    return [(commits[row[0]], *row[1:]) for row in rows]


def test_each_statement_alone_is_a_commit_of_its_own(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1.50)")
    tracked.execute("UPDATE dbo.t SET name = N'b' WHERE id = 1")
    tracked.execute("DELETE dbo.t WHERE id = 1")
    assert changes(tracked) == [
        (1, 1, 2, 1, "a", Decimal("1.50")),
        (2, 1, 3, 1, "a", Decimal("1.50")),
        (2, 1, 4, 1, "b", Decimal("1.50")),
        (3, 1, 1, 1, "b", Decimal("1.50")),
    ]


def test_a_transaction_of_several_statements_counts_its_commands_under_one_lsn(tracked):
    tracked.execute(
        "BEGIN TRAN; INSERT dbo.t VALUES (1, N'a', 1), (2, N'b', 2); UPDATE dbo.t SET amount = 9; "
        "DELETE dbo.t WHERE id = 2; COMMIT"
    )
    assert changes(tracked, "id, amount") == [
        (1, 1, 2, 1, 1),
        (1, 2, 2, 2, 2),
        (1, 3, 3, 1, 1),
        (1, 3, 4, 1, 9),
        (1, 4, 3, 2, 2),
        (1, 4, 4, 2, 9),
        (1, 5, 1, 2, 9),
    ]


def test_what_is_rolled_back_leaves_no_change(tracked):
    tracked.execute("BEGIN TRAN; INSERT dbo.t VALUES (1, N'a', 1); ROLLBACK")
    tracked.execute("INSERT dbo.t VALUES (2, N'b', 2)")
    assert changes(tracked, "id") == [(1, 1, 2, 2)]


def test_a_statement_that_fails_leaves_no_change_of_its_rows(tracked):
    tracked.execute("INSERT dbo.t VALUES (5, N'a', 1)")
    with pytest.raises(SqlError):
        tracked.execute("INSERT dbo.t VALUES (6, N'b', 1), (5, N'c', 1)")
    tracked.execute("DELETE dbo.t")
    assert changes(tracked, "id") == [(1, 1, 2, 5), (2, 1, 1, 5)]


def test_lsns_are_ten_bytes_that_rise_and_seqvals_lie_between_begin_and_commit(tracked):
    for i in range(3):
        tracked.execute("INSERT dbo.t VALUES (?, N'x', 0), (?, N'y', 0)", 2 * i, 2 * i + 1)
    rows = tracked.execute(
        "SELECT c.[__$start_lsn], c.[__$seqval], m.tran_begin_lsn FROM cdc.dbo_t_CT c "
        f"JOIN cdc.lsn_time_mapping m ON m.start_lsn = c.[__$start_lsn] ORDER BY {ORDER}"
    )
    assert len(rows) == 6
    assert all(len(value) == 10 for row in rows for value in row)
    assert all(begin < seqval < commit for commit, seqval, begin in rows)
    assert [row[1] for row in rows] == sorted({row[1] for row in rows})


def test_one_row_that_moves_its_key_is_a_delete_and_an_insert_of_one_seqval(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("UPDATE dbo.t SET id = 7 WHERE id = 1")
    assert changes(tracked, "id")[1:] == [(2, 1, 1, 1), (2, 1, 2, 7)]
    seqvals = tracked.execute("SELECT [__$seqval] FROM cdc.dbo_t_CT WHERE [__$operation] = 1 OR id = 7")
    assert seqvals[0] == seqvals[1]


def test_key_updates_are_images_when_the_server_is_told_so(tracked):
    tracked.key_updates = "images"
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("UPDATE dbo.t SET id = 7 WHERE id = 1")
    assert changes(tracked, "id")[1:] == [(2, 1, 3, 1), (2, 1, 4, 7)]


@pytest.mark.parametrize("key_updates", ["pair", "images"])
def test_keys_that_swap_are_updates_in_place(tracked, key_updates):
    tracked.key_updates = key_updates
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1), (2, N'b', 2)")
    tracked.execute("UPDATE dbo.t SET id = 3 - id")
    assert tracked.execute("SELECT id, name FROM dbo.t ORDER BY id") == [(1, "b"), (2, "a")]
    assert sorted(changes(tracked, "id, name")[2:], key=lambda row: (row[3], row[2])) == [
        (2, 1, 3, 1, "a"),
        (2, 1, 4, 1, "b"),
        (2, 2, 3, 2, "b"),
        (2, 2, 4, 2, "a"),
    ]


def test_a_key_that_changes_its_case_only_keeps_both_spellings(server):
    server.execute("CREATE TABLE dbo.c (code varchar(10) PRIMARY KEY)")
    server.enable_cdc("dbo.c")
    server.execute("INSERT dbo.c VALUES ('n')")
    server.execute("UPDATE dbo.c SET code = 'N'")
    assert changes(server, "code", "dbo_c")[1:] == [(2, 1, 1, "n"), (2, 1, 2, "N")]


def test_an_update_that_changes_nothing_is_not_captured(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("UPDATE dbo.t SET name = name")
    assert len(changes(tracked)) == 1


def test_only_the_captured_columns_are_there_and_only_their_changes(server):
    server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, a int, b int)")
    server.enable_cdc("dbo.t", captured_column_list="id, b")
    server.execute("INSERT dbo.t VALUES (1, 10, 20)")
    server.execute("UPDATE dbo.t SET a = 11")
    server.execute("UPDATE dbo.t SET b = 21")
    assert changes(server, "id, b") == [(1, 1, 2, 1, 20), (2, 1, 3, 1, 20), (2, 1, 4, 1, 21)]


def test_computed_columns_are_null_in_every_change_row(server):
    server.execute("CREATE TABLE dbo.line (id int PRIMARY KEY, qty int, price money, total AS qty * price)")
    server.enable_cdc("dbo.line")
    server.execute("INSERT dbo.line VALUES (1, 2, 3)")
    server.execute("UPDATE dbo.line SET qty = 5")
    assert server.execute("SELECT total FROM dbo.line") == [(Decimal("15.0000"),)]
    assert changes(server, "qty, total", "dbo_line") == [
        (1, 1, 2, 2, None),
        (2, 1, 3, 2, None),
        (2, 1, 4, 5, None),
    ]


def test_large_objects_are_null_where_the_log_does_not_hold_them(server):
    server.execute("CREATE TABLE dbo.doc (id int PRIMARY KEY, n int, body nvarchar(max), old text)")
    server.enable_cdc("dbo.doc")
    server.execute("INSERT dbo.doc VALUES (1, 1, N'body', 'old')")
    server.execute("UPDATE dbo.doc SET n = 2")
    server.execute("UPDATE dbo.doc SET body = N'new'")
    server.execute("DELETE dbo.doc")
    assert changes(server, "n, body, old", "dbo_doc") == [
        (1, 1, 2, 1, "body", "old"),
        (2, 1, 3, 1, None, None),
        (2, 1, 4, 2, "body", "old"),
        (3, 1, 3, 2, "body", None),
        (3, 1, 4, 2, "new", "old"),
        (4, 1, 1, 2, "new", None),
    ]


def test_the_update_mask_names_changed_columns(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("UPDATE dbo.t SET amount = 2")
    rows = tracked.execute(f"SELECT [__$update_mask] FROM cdc.dbo_t_CT ORDER BY {ORDER}")
    assert rows == [(b"\x07",), (b"\x04",), (b"\x04",)]


def test_merge_and_insert_select_are_captured_as_their_rows(tracked):
    tracked.execute("INSERT dbo.t SELECT n, N'x', n FROM (VALUES (1), (2), (3)) AS v(n)")
    assert changes(tracked, "id") == [(1, 1, 2, 1), (1, 2, 2, 2), (1, 3, 2, 3)]


def test_executemany_is_one_commit_with_a_command_for_each_row(tracked):
    tracked.executemany("INSERT dbo.t VALUES (?, ?, ?)", [(i, f"n{i}", Decimal(i)) for i in range(500)])
    rows = changes(tracked, "id")
    assert [row[3] for row in rows] == list(range(500))
    assert {row[0] for row in rows} == {1}


def test_both_instances_of_a_table_get_a_change_with_the_same_seqval(tracked):
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.enable_cdc("dbo.t", capture_instance="dbo_t_v2")
    tracked.execute("INSERT dbo.t VALUES (2, N'b', 2)")
    assert changes(tracked, "id") == [(1, 1, 2, 1), (2, 1, 2, 2)]
    assert changes(tracked, "id", "dbo_t_v2") == [(1, 1, 2, 2)]
    one = tracked.execute("SELECT [__$start_lsn], [__$seqval] FROM cdc.dbo_t_CT WHERE id = 2")
    assert one == tracked.execute("SELECT [__$start_lsn], [__$seqval] FROM cdc.dbo_t_v2_CT")


def test_tables_of_one_transaction_share_its_lsn(tracked):
    tracked.execute("CREATE TABLE dbo.u (id int PRIMARY KEY)")
    tracked.enable_cdc("dbo.u")
    tracked.execute("BEGIN TRAN; INSERT dbo.t VALUES (1, N'a', 1); INSERT dbo.u VALUES (9); COMMIT")
    t, u = (tracked.execute(f"SELECT [__$start_lsn] FROM cdc.dbo_{name}_CT") for name in "tu")
    assert t == u


def test_a_heap_without_a_key_writes_images_for_every_update(server):
    server.execute("CREATE TABLE dbo.heap (id int NOT NULL, v int)")
    server.enable_cdc("dbo.heap")
    server.execute("INSERT dbo.heap VALUES (1, 1), (1, 1)")
    server.execute("UPDATE dbo.heap SET id = id + 1")
    assert changes(server, "id", "dbo_heap")[2:] == [(2, 1, 3, 1), (2, 1, 4, 2), (2, 2, 3, 1), (2, 2, 4, 2)]


def test_an_old_build_has_no_command_id():
    with EmbeddedSqlServer() as server:
        server.cdc.command_ids = False
        server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)")
        server.enable_cdc("dbo.t")
        server.execute("INSERT dbo.t VALUES (1)")
        with pytest.raises(SqlError) as caught:
            server.execute("SELECT [__$command_id] FROM cdc.dbo_t_CT")
        assert caught.value.number == 207
        assert server.execute("SELECT [__$operation], id FROM cdc.dbo_t_CT") == [(2, 1)]
