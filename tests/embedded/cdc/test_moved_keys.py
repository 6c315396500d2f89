"""Updates of a key, by what the table is clustered by: which rows move, and in which order they are shown."""

import pytest

ORDER = "[__$start_lsn], [__$command_id], [__$seqval], [__$operation]"

IN_PLACE = {
    "a nonclustered unique index beside a clustered key": (
        "id int PRIMARY KEY, code int NOT NULL, INDEX ux UNIQUE NONCLUSTERED (code)"
    ),
    "a unique constraint beside a clustered key": "id int PRIMARY KEY, code int NOT NULL UNIQUE",
    "the primary key of a heap": "id int NOT NULL, code int NOT NULL PRIMARY KEY NONCLUSTERED",
    "a primary key beside a clustered index": (
        "id int NOT NULL, code int NOT NULL PRIMARY KEY NONCLUSTERED, INDEX cx UNIQUE CLUSTERED (id)"
    ),
}


def made(server, columns, **options):
    server.execute(f"CREATE TABLE dbo.t ({columns})")
    server.enable_cdc("dbo.t", **options)
    server.execute("INSERT dbo.t VALUES (1, 10), (2, 11), (3, 12), (4, 13)")
    return server


def newest(server):
    """The newest commit's change rows: command id, operation, id, code."""
    return server.execute(
        "SELECT [__$command_id], [__$operation], id, code FROM cdc.dbo_t_CT WHERE [__$start_lsn] = "
        f"(SELECT MAX([__$start_lsn]) FROM cdc.dbo_t_CT) ORDER BY {ORDER}"
    )


SHIFTED = [(1, 10, 11), (2, 11, 12), (3, 12, 13), (4, 13, 14)]


@pytest.mark.parametrize("columns", IN_PLACE.values(), ids=IN_PLACE)
@pytest.mark.parametrize("key_updates", ["pair", "images", "inserts first"])
def test_a_key_that_the_table_is_not_clustered_by_shifts_as_images_in_the_tables_order(
    server, columns, key_updates
):
    server.key_updates = key_updates
    made(server, columns)
    server.execute("UPDATE dbo.t SET code = code + 1")
    pairs = [((n, 3, i, old), (n, 4, i, new)) for n, (i, old, new) in enumerate(SHIFTED, start=1)]
    assert newest(server) == [row for pair in pairs for row in pair]


@pytest.mark.parametrize("columns", IN_PLACE.values(), ids=IN_PLACE)
def test_two_rows_that_swap_such_a_key_are_two_updates_of_these_rows(server, columns):
    made(server, columns)
    server.execute("UPDATE dbo.t SET code = 23 - code WHERE id IN (2, 3)")
    assert newest(server) == [(1, 3, 2, 11), (1, 4, 2, 12), (2, 3, 3, 12), (2, 4, 3, 11)]


def test_an_instance_by_another_index_shows_what_the_table_is_clustered_by(server):
    made(server, IN_PLACE["a unique constraint beside a clustered key"])
    index = server.execute(
        "SELECT name FROM sys.indexes WHERE object_id = OBJECT_ID('dbo.t') AND is_primary_key = 0"
    )[0][0]
    server.enable_cdc("dbo.t", capture_instance="by_code", index_name=index)
    server.execute("UPDATE dbo.t SET id = id + 10 WHERE id = 4")
    assert newest(server) == [(1, 1, 4, 13), (1, 2, 14, 13)]
    assert server.execute(f"SELECT [__$operation], id FROM cdc.by_code_CT ORDER BY {ORDER}") == [
        (1, 4),
        (2, 14),
    ]


def test_a_clustered_unique_index_splits_its_updates_though_another_is_the_primary_key(server):
    made(server, IN_PLACE["a primary key beside a clustered index"])
    server.execute("UPDATE dbo.t SET id = id + 1")
    assert [row[1:] for row in newest(server)] == [
        (1, 1, 10),
        (3, 2, 11),
        (4, 2, 10),
        (3, 3, 12),
        (4, 3, 11),
        (3, 4, 13),
        (4, 4, 12),
        (2, 5, 13),
    ]


def test_rows_of_a_clustered_index_that_is_not_unique_move_and_never_collapse(server):
    made(server, "id int PRIMARY KEY NONCLUSTERED, code int NOT NULL, INDEX cx CLUSTERED (code)")
    server.execute("UPDATE dbo.t SET code = 21 - code WHERE id < 3")
    assert [row[1:] for row in newest(server)] == [(1, 1, 10), (1, 2, 11), (2, 1, 11), (2, 2, 10)]


def test_old_builds_record_the_insert_before_its_delete(tracked):
    tracked.key_updates = "inserts first"
    tracked.execute("INSERT dbo.t VALUES (1, N'a', 1)")
    tracked.execute("UPDATE dbo.t SET id = 7")
    found = tracked.execute(f"SELECT [__$operation], id, [__$seqval] FROM cdc.dbo_t_CT ORDER BY {ORDER}")[1:]
    assert [row[:2] for row in found] == [(2, 7), (1, 1)]
    assert found[0][2] < found[1][2]


def test_one_command_id_can_stand_for_all_rows_of_a_statement(server):
    server.commands = "statement"
    made(server, IN_PLACE["a unique constraint beside a clustered key"])
    server.execute(
        "BEGIN TRAN; UPDATE dbo.t SET code = code + 1 WHERE id > 2; DELETE dbo.t WHERE id < 3; COMMIT"
    )
    assert newest(server) == [
        (1, 3, 3, 12),
        (1, 4, 3, 13),
        (1, 3, 4, 13),
        (1, 4, 4, 14),
        (2, 1, 1, 10),
        (2, 1, 2, 11),
    ]


def test_both_can_be_set_by_a_connection(server):
    server.execute("EXEC embedded.key_updates 'inserts first'; EXEC embedded.commands 'statement'")
    assert (server.key_updates, server.commands) == ("inserts first", "statement")
