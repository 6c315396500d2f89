"""Uniqueness is checked when an UPDATE is done, not row by row."""

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.seam import SqlError

TABLES = {
    "clustered key": "CREATE TABLE dbo.t (id int PRIMARY KEY, code varchar(5) NOT NULL, rv rowversion)",
    "heap": "CREATE TABLE dbo.t (id int PRIMARY KEY NONCLUSTERED, code varchar(5) NOT NULL, rv rowversion)",
    "index": "CREATE TABLE dbo.t (id int NOT NULL UNIQUE, code varchar(5) NOT NULL, rv rowversion)",
}


@pytest.fixture(params=TABLES)
def server(request):
    with EmbeddedSqlServer() as server:
        server.execute(TABLES[request.param])
        server.execute("INSERT dbo.t (id, code) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        yield server


def rows(server):
    return server.execute("SELECT id, code FROM dbo.t ORDER BY id")


@pytest.mark.parametrize(
    ("update", "expected", "touched"),
    [
        ("UPDATE dbo.t SET id = id + 1", [(2, "a"), (3, "b"), (4, "c")], 3),
        ("UPDATE dbo.t SET id = id - 1", [(0, "a"), (1, "b"), (2, "c")], 3),
        ("UPDATE dbo.t SET id = 4 - id", [(1, "c"), (2, "b"), (3, "a")], 3),
        ("UPDATE dbo.t SET id = id + 1 WHERE id >= 2", [(1, "a"), (3, "b"), (4, "c")], 2),
        (
            "UPDATE dbo.t SET id = 3 - id, code = CASE id WHEN 1 THEN 'A' ELSE 'B' END WHERE id < 3",
            [(1, "B"), (2, "A"), (3, "c")],
            2,
        ),
    ],
)
def test_keys_pass_through_each_other(server, update, expected, touched):
    stamps = set(server.execute("SELECT rv FROM dbo.t"))
    with server.session() as session:
        assert session.run(update) == touched
    assert rows(server) == expected
    assert len(set(server.execute("SELECT rv FROM dbo.t")) - stamps) == touched


def test_keys_that_are_equal_in_the_end_are_refused_and_nothing_is_changed(server):
    with pytest.raises(SqlError) as caught:
        server.execute("UPDATE dbo.t SET id = CASE WHEN id < 3 THEN 3 ELSE 9 END")
    assert caught.value.number in (2601, 2627)
    assert rows(server) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_refused_update_leaves_the_open_transaction_as_it_was(server):
    with server.session() as session:
        session.run("BEGIN TRAN; INSERT dbo.t (id, code) VALUES (7, 'x')")
        with pytest.raises(SqlError):
            session.run("UPDATE dbo.t SET id = 5")
        session.run("COMMIT")
    assert rows(server) == [(1, "a"), (2, "b"), (3, "c"), (7, "x")]
