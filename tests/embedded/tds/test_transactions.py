"""Transactions of both drivers reach the session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.seam import Parameter, SqlError
from airflow_provider_mssql_cdc.embedded.tds import requests
from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.procedures import Transactions
from tests.embedded.tds.clients import Clients
from tests.embedded.tds.scripted import Items, ScriptedEngine, ScriptedSession

HEADERS = b"\x04\x00\x00\x00"


def since_insert(engine: ScriptedEngine) -> list[str]:
    texts = engine.texts()
    return texts[texts.index("INSERT") :]


def test_mssql_python_commits_and_rolls_back(engine: ScriptedEngine, clients: Clients) -> None:
    connection = clients.mssql_python(autocommit=False)
    cursor = connection.cursor()
    assert "<begin>" in engine.texts()
    cursor.execute("INSERT")
    connection.commit()
    cursor.execute("DELETE")
    connection.rollback()
    cursor.execute("UPDATE")
    assert since_insert(engine) == [
        "INSERT", "<commit>", "<begin>", "DELETE", "<rollback>", "<begin>", "UPDATE",
    ]  # fmt: skip


def test_pymssql_commits_and_rolls_back(engine: ScriptedEngine, clients: Clients) -> None:
    connection = clients.pymssql(autocommit=False)
    connection.cursor().execute("INSERT")
    connection.commit()
    connection.cursor().execute("DELETE")
    connection.rollback()
    statements = since_insert(engine)
    assert statements == ["INSERT", "COMMIT TRAN", "BEGIN TRAN", "DELETE", "ROLLBACK TRAN", "BEGIN TRAN"]


def test_autocommit_opens_no_transaction(engine: ScriptedEngine, clients: Clients) -> None:
    clients.mssql_python(autocommit=True).cursor().execute("INSERT")
    assert "<begin>" not in engine.texts()


def test_a_transaction_that_the_server_ended_may_be_rolled_back(
    engine: ScriptedEngine, clients: Clients
) -> None:
    def deadlock(session: ScriptedSession, _: Sequence[Parameter]) -> Items:
        session.rollback = no_transaction  # type: ignore[method-assign]
        raise SqlError(1205, "Transaction (Process ID 51) was deadlocked.", severity=13)

    def no_transaction() -> None:
        raise SqlError(3903, "The ROLLBACK TRANSACTION request has no corresponding BEGIN TRANSACTION.")

    engine.scripts["UPDATE"] = deadlock
    connection = clients.mssql_python(autocommit=False)
    with pytest.raises(Exception, match="deadlocked"):
        connection.cursor().execute("UPDATE")
    connection.rollback()
    connection.cursor().execute("INSERT")
    assert engine.texts()[-1] == "INSERT"


def test_a_commit_that_fails_raises(engine: ScriptedEngine, clients: Clients) -> None:
    def refuse() -> None:
        raise SqlError(3902, "The COMMIT TRANSACTION request has no corresponding BEGIN TRANSACTION.")

    connection = clients.mssql_python(autocommit=False)
    connection.cursor().execute("INSERT")
    engine.sessions[-1].commit = refuse  # type: ignore[method-assign]
    with pytest.raises(Exception, match="no corresponding BEGIN"):
        connection.commit()


REQUESTS: list[tuple[bytes, Any]] = [
    (b"\x05\x00\x00\x00", requests.TransactionRequest(requests.BEGIN, None)),
    (b"\x05\x00\x05\x00", requests.TransactionRequest(requests.BEGIN, "SNAPSHOT")),
    (b"\x07\x00\x00\x00", requests.TransactionRequest(requests.COMMIT, None)),
    (b"\x07\x00\x00\x01\x02\x00", requests.TransactionRequest(requests.COMMIT, "READ COMMITTED", True)),
    (b"\x08\x00\x04a\x00b\x00\x00", requests.TransactionRequest(requests.ROLLBACK, None)),
    (b"\x08\x00\x00\x01\x00\x00", requests.TransactionRequest(requests.ROLLBACK, None, True)),
]


@pytest.mark.parametrize(("body", "expected"), REQUESTS)
def test_a_request_is_read_as_it_is_meant(body: bytes, expected: requests.TransactionRequest) -> None:
    assert requests.transaction(HEADERS + body) == expected


def test_savepoints_are_refused() -> None:
    with pytest.raises(ProtocolError, match="9 is not supported"):
        requests.transaction(HEADERS + b"\x09\x00")


def test_a_begin_with_an_isolation_level_sets_it_first(engine: ScriptedEngine) -> None:
    session = engine.login("sa", "Pa:s@/?#%w0rd", "")
    written: list[bytes] = []
    Transactions(session).handle(requests.TransactionRequest(requests.BEGIN, "SNAPSHOT"), written.append)
    assert engine.texts() == ["SET TRANSACTION ISOLATION LEVEL SNAPSHOT", "<begin>"]
    assert len(written) == 1
