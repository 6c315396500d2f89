"""TLS: none, for the login, for everything."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc.embedded.connection import CertificateFiles, self_signed, tls_context
from airflow_provider_mssql_cdc.embedded.listener import Listener
from airflow_provider_mssql_cdc.embedded.seam import SqlType
from airflow_provider_mssql_cdc.embedded.tds.handshake import Encryption, Prelogin, Tls, settle
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine

TRUSTING = "Encrypt=yes;TrustServerCertificate=yes"
Serve = Callable[[str], Clients]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def serve(engine: ScriptedEngine, certificate: CertificateFiles) -> Iterator[Serve]:
    """Start a listener with a kind of TLS; give clients for it."""
    engine.select("SELECT", [("x", SqlType("nvarchar", 8000))], [("ä" * 3000,)] * 200)
    listeners: list[Listener] = []

    def start(tls: str) -> Clients:
        listeners.append(Listener(engine, tls=tls, certificate=certificate))
        return Clients(listeners[-1].port)

    yield start
    for listener in listeners:
        listener.close()


ROWS = [("ä" * 3000,)] * 200

WORKS = [
    ("off", "Encrypt=no", "off"),
    ("login", "Encrypt=no", "off"),
    ("login", "Encrypt=no", "request"),
    ("login", TRUSTING, "require"),
    ("required", TRUSTING, "require"),
]


@pytest.mark.parametrize(("tls", "odbc", "freetds"), WORKS)
def test_both_drivers_read_through_it(tls: str, odbc: str, freetds: str, serve: Serve) -> None:
    with serve(tls) as clients:
        assert fetch(clients.pymssql(encryption=freetds), "SELECT") == ROWS
        assert fetch(clients.mssql_python(odbc), "SELECT") == ROWS


@pytest.mark.parametrize("tls", ["login", "required"])
def test_a_self_signed_certificate_is_refused_by_default(tls: str, serve: Serve) -> None:
    with serve(tls) as clients, pytest.raises(Exception, match="(?i)certificate|SSL"):
        clients.mssql_python("Encrypt=yes;TrustServerCertificate=no")


def test_a_self_signed_certificate_may_be_trusted_by_file(
    serve: Serve, certificate: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.certificate))
    with serve("required") as clients:
        assert fetch(clients.mssql_python("Encrypt=yes;HostnameInCertificate=localhost"), "SELECT") == ROWS
        with pytest.raises(Exception, match="(?i)host"):
            clients.mssql_python("Encrypt=yes;HostnameInCertificate=elsewhere")


def test_freetds_encrypts_where_it_must(serve: Serve) -> None:
    with serve("required") as clients:
        assert fetch(clients.pymssql(encryption="off"), "SELECT") == ROWS


def test_a_client_that_needs_tls_is_refused_where_there_is_none(serve: Serve) -> None:
    with serve("off") as clients:
        with pytest.raises(Exception, match="(?i)encrypt|connect|SSL|DBPROCESS"):
            clients.pymssql(encryption="require", login_timeout=5)
        with pytest.raises(Exception, match="(?i)encrypt|SSL"):
            clients.mssql_python(TRUSTING)


def test_a_wrong_kind_of_tls_is_named(engine: ScriptedEngine) -> None:
    with pytest.raises(ValueError, match="sometimes"):
        Listener(engine, tls="sometimes")


def test_a_certificate_is_made_when_none_is_given(engine: ScriptedEngine) -> None:
    engine.select("SELECT", [("x", SqlType("int"))], [(1,)])
    with Listener(engine, tls="required") as listener, Clients(listener.port) as clients:
        assert fetch(clients.mssql_python(TRUSTING), "SELECT") == [(1,)]


def test_tls_is_no_newer_than_1_2(certificate: CertificateFiles) -> None:
    assert tls_context(certificate).maximum_version is ssl.TLSVersion.TLSv1_2


def test_the_key_is_for_its_owner_only(tmp_path: Path) -> None:
    assert self_signed(tmp_path).key.stat().st_mode & 0o777 == 0o600


OFF, ON, NOT_SUPPORTED, REQUIRED = range(4)
SETTLED = [
    (OFF, Tls.OFF, NOT_SUPPORTED, Encryption.NONE),
    (ON, Tls.OFF, NOT_SUPPORTED, Encryption.NONE),
    (OFF, Tls.LOGIN, OFF, Encryption.LOGIN_ONLY),
    (ON, Tls.LOGIN, ON, Encryption.FULL),
    (REQUIRED, Tls.LOGIN, ON, Encryption.FULL),
    (NOT_SUPPORTED, Tls.LOGIN, NOT_SUPPORTED, Encryption.NONE),
    (OFF, Tls.REQUIRED, REQUIRED, Encryption.FULL),
    (ON, Tls.REQUIRED, REQUIRED, Encryption.FULL),
    (NOT_SUPPORTED, Tls.REQUIRED, REQUIRED, Encryption.FULL),
]


@pytest.mark.parametrize(("client", "offer", "byte", "encryption"), SETTLED)
def test_the_two_sides_settle(client: int, offer: Tls, byte: int, encryption: Encryption) -> None:
    assert settle(Prelogin(client, federated=False), offer) == (byte, encryption)
