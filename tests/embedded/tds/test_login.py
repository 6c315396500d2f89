"""PRELOGIN and LOGIN7, taken apart."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.embedded.seam import SqlType
from airflow_provider_mssql_cdc.embedded.tds import handshake
from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError
from tests.embedded.tds.clients import PASSWORD, Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine
from tests.embedded.tds.test_connections import login7 as login_message


def test_a_login_is_read() -> None:
    login = handshake.parse_login7(login_message())
    assert (login.user, login.password, login.database) == ("sa", PASSWORD, "db")
    assert (login.integrated_security, login.features) == (False, ())


def test_the_password_is_not_in_its_repr() -> None:
    assert PASSWORD not in repr(handshake.parse_login7(login_message()))


@pytest.mark.parametrize(
    ("asked", "given"), [(0, 4096), (100, 512), (4096, 4096), (8000, 8000), (100_000, 32767)]
)
def test_a_packet_size_is_kept_within_bounds(asked: int, given: int) -> None:
    message = bytearray(login_message())
    message[8:12] = asked.to_bytes(4, "little")
    assert handshake.parse_login7(bytes(message)).packet_bytes == given


def test_a_short_message_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="too short"):
        handshake.parse_login7(bytes(50))


def test_a_prelogin_without_an_encryption_option_cannot_encrypt() -> None:
    assert handshake.parse_prelogin(b"\xff").encryption == 2


@pytest.mark.parametrize("size", [512, 4096, 8192, 32767])
def test_packets_of_any_size_carry_the_same_rows(size: int, engine: ScriptedEngine, clients: Clients) -> None:
    rows = [(i, "x" * (i % 300)) for i in range(3000)]
    engine.select("SELECT", [("id", SqlType("int")), ("x", SqlType("nvarchar", 800))], rows)
    assert fetch(clients.mssql_python(f"Encrypt=no;PacketSize={size}"), "SELECT") == rows


def test_the_database_and_the_session_are_told(engine: ScriptedEngine, clients: Clients) -> None:
    clients.mssql_python()
    clients.pymssql(database="Ünïcode db")
    assert [session.database for session in engine.sessions] == ["db", "Ünïcode db"]
