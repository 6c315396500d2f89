"""Whatever the user's own settings are, the reads rest on what the session states after them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import ConfigurationError, StatementFailed
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.tsql import session as statements
from airflow_provider_mssql_cdc.tsql.session import SessionState
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.unit.source.conftest import settings_for

ROWS = Statement("SELECT id, note FROM dbo.optional ORDER BY id")
SCHEMA = pa.schema([("id", pa.int32()), ("note", pa.string())])
LONG = "x" * 5000
HOSTILE = (
    "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET ROWCOUNT 1",
    "SET ROWCOUNT 2",
    "SET TEXTSIZE 100",
    "SET IMPLICIT_TRANSACTIONS ON",
    "SET IMPLICIT_TRANSACTIONS ON; SELECT id FROM dbo.optional",
    "BEGIN TRANSACTION",
    "SET ANSI_NULLS OFF",
    "SET ANSI_NULLS, ANSI_PADDING, ANSI_WARNINGS OFF",
    "SET ANSI_PADDING OFF",
    "SET ANSI_WARNINGS OFF",
    "SET ARITHABORT OFF",
    "SET CONCAT_NULL_YIELDS_NULL OFF",
    "SET QUOTED_IDENTIFIER OFF",
    "SET NUMERIC_ROUNDABORT ON",
    "SET XACT_ABORT OFF",
    "SET DATEFORMAT ydm",
    "SET LANGUAGE German",
    "SET LOCK_TIMEOUT 0",
    "SET NOCOUNT ON",
)


@pytest.fixture(scope="module", autouse=True)
def table(server: EmbeddedSqlServer) -> None:
    server.execute("CREATE TABLE dbo.optional (id int NOT NULL PRIMARY KEY, note varchar(max) NULL)")
    server.executemany("INSERT INTO dbo.optional VALUES (?, ?)", [(i, LONG) for i in range(5)])


@pytest.fixture
def writer(server: EmbeddedSqlServer) -> Iterator[None]:
    """A transaction that has inserted, changed and deleted, and will be rolled back."""
    with server.session(database="shop") as other:
        other.run("BEGIN TRANSACTION; INSERT INTO dbo.optional VALUES (99, 'never there')")
        other.run("DELETE dbo.optional WHERE id = 0; UPDATE dbo.optional SET note = 'never' WHERE id = 1")
        yield
        other.run("ROLLBACK TRANSACTION")


def opened(server: EmbeddedSqlServer, driver: str, *properties: str) -> SourceSession:
    return SourceSession(replace(settings_for(server, driver), conn_properties=properties))


@pytest.mark.usefixtures("writer")
@pytest.mark.parametrize("hostile", HOSTILE)
def test_rows_are_whole_and_committed_whatever_the_connection_sets(
    server: EmbeddedSqlServer, driver: str, hostile: str
) -> None:
    with opened(server, driver, hostile) as session:
        read = [row for batch in session.read(ROWS, SCHEMA) for row in batch.to_pylist()]
        asked = session.rows(ROWS)
        assert session.value(Statement("SELECT @@TRANCOUNT AS n")) == 0
    assert read == asked == [{"id": i, "note": LONG} for i in range(5)]


@pytest.mark.parametrize("hostile", [(), *((text,) for text in HOSTILE), HOSTILE[:1] + HOSTILE[3:]])
def test_the_server_shows_every_setting_as_it_was_stated(
    server: EmbeddedSqlServer, driver: str, hostile: tuple[str, ...]
) -> None:
    with opened(server, driver, *hostile) as session:
        state = SessionState()
        for question in (
            statements.globals_in_effect(),
            statements.options_in_effect(),
            statements.levels_in_effect(),
            statements.texts_in_effect(),
        ):
            row = session.rows(question)[0]
            state = SessionState.of({**{n: getattr(state, n) for n in SessionState.__slots__}, **row})
        assert (state.wrong(), state.other()) == ((), ())
        assert (state.isolation_level, state.language_name, state.lock_wait_ms) == (2, "us_english", 300_000)
        assert (state.utf16, session.utf16) == (1, True)


def test_settings_and_what_came_of_them_are_one_round_trip(server: EmbeddedSqlServer, driver: str) -> None:
    server.faults.clear_log()
    with opened(server, driver):
        sent = [statement.sql for statement in server.faults.log()]
    assert sum("SET ROWCOUNT 0" in text for text in sent) == 1
    drivers_own = 2 if driver == "pymssql" else 0  # TEXTSIZE and its like at the login
    assert len(sent) <= 1 + drivers_own


@pytest.mark.parametrize(
    "missing", ["dm_exec_sessions", "@@OPTIONS", "SET DATEFORMAT", "SET FMTONLY", "varbinary"]
)
def test_an_engine_that_lacks_a_setting_or_an_answer_is_read_and_the_log_says_what_is_missing(
    server: EmbeddedSqlServer, driver: str, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    server.faults.fail(missing, 195, text=f"'{missing}' is not a recognized option.", times=10)
    try:
        with opened(server, driver, "SET ROWCOUNT 2", "SET TEXTSIZE 10") as session:
            assert len(session.rows(ROWS)) == 5
    finally:
        server.faults.clear()
    assert missing in caplog.text.partition("Missing: ")[2]


@pytest.mark.parametrize(
    "missing", ["SET ROWCOUNT", r"ROWCOUNT 0;\s+SET TEXTSIZE", "SET TRANSACTION ISOLATION"]
)
def test_an_engine_that_lacks_what_rows_rest_on_is_not_read(
    server: EmbeddedSqlServer, driver: str, missing: str
) -> None:
    server.faults.fail(missing, 195, text=f"'{missing}' is not a recognized option.", times=10)
    try:
        with pytest.raises(StatementFailed, match="setting the session up.*not a recognized option"):
            opened(server, driver).open()
    finally:
        server.faults.clear()


@pytest.mark.parametrize(
    ("shown", "said"),
    [
        ({"size_of_text": 4096}, "TEXTSIZE is 4096"),
        ({"size_of_text": 64512}, "TEXTSIZE is 64512"),
        ({"open_transactions": 2}, "2 transactions are open"),
        ({"isolation_level": 1}, "READ UNCOMMITTED"),
        ({"option_bits": 21880 | 2}, "IMPLICIT_TRANSACTIONS is ON"),
    ],
)
def test_a_setting_that_did_not_take_effect_is_told(shown: dict[str, int], said: str) -> None:
    (problem,) = SessionState.of(shown).wrong()
    assert said in problem


@pytest.mark.parametrize(
    ("shown", "names"),
    [
        ({}, ()),
        ({"option_bits": 21880, "date_order": "mdy"}, ()),
        ({"option_bits": 21880 - 32}, ("ANSI_NULLS",)),
        ({"option_bits": 21880 + 8192}, ("NUMERIC_ROUNDABORT",)),
        ({"option_bits": 0, "date_order": "dmy"}, (
            "ANSI_WARNINGS", "ANSI_PADDING", "ANSI_NULLS", "ARITHABORT", "QUOTED_IDENTIFIER",
            "CONCAT_NULL_YIELDS_NULL", "XACT_ABORT", "DATEFORMAT",
        )),
    ],
)  # fmt: skip
def test_settings_that_are_not_shown_as_made_are_named(
    shown: dict[str, object], names: tuple[str, ...]
) -> None:
    assert SessionState.of(shown).other() == names


@pytest.mark.parametrize(
    ("kept", "said"),
    [({"text_size": 4096}, "TEXTSIZE is 4096"), ({"isolation": "READ UNCOMMITTED"}, "READ UNCOMMITTED")],
)
def test_a_server_that_keeps_its_own_setting_is_not_read(
    server: EmbeddedSqlServer, driver: str, kept: dict[str, object], said: str
) -> None:
    def keep() -> None:
        for session in server.engine.sessions:
            for name, value in kept.items():
                setattr(session, name, value)

    server.faults.fail("SET FMTONLY OFF;", 195)
    server.faults.run("size_of_text|isolation_level", keep, times=None)
    try:
        with pytest.raises(ConfigurationError, match=said):
            opened(server, driver).open()
    finally:
        server.faults.clear()
