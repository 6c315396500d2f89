"""TLS as an Airflow connection asks for it, through the hook, with both drivers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.connection import CertificateFiles, self_signed
from airflow_provider_mssql_cdc.embedded.listener import Listener
from airflow_provider_mssql_cdc.errors import ConfigurationError, ConnectionBroken, MssqlCdcError
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.tsql.statement import Statement

ONE = Statement("SELECT 1 AS one")
Ask = Callable[..., object]

both_drivers = pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return self_signed(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="shop") as running:
        yield running


@pytest.fixture
def ask(
    server: EmbeddedSqlServer, certificate: CertificateFiles, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ask]:
    """Ask a server of a kind of TLS something, over a connection with these extras of ours."""
    listeners: list[Listener] = []

    def asked(tls: str, driver: str, *, host: str = "localhost", **ours: Any) -> object:
        listeners.append(Listener(server.front, tls=tls, certificate=certificate))
        told = json.loads(server.airflow_connection())
        told |= {"host": host, "port": listeners[-1].port}
        told["extra"] = {"driver": driver, "login_timeout_seconds": 5, **ours}
        monkeypatch.setenv("AIRFLOW_CONN_TLS", json.dumps(told))
        with MssqlCdcHook("tls").session() as session:
            return session.value(ONE)

    yield asked
    for listener in listeners:
        listener.close()


@both_drivers
@pytest.mark.parametrize("tls", ["login", "required"])
def test_a_self_signed_certificate_is_refused_where_encryption_is_asked_for(
    ask: Ask, driver: str, tls: str
) -> None:
    with pytest.raises(MssqlCdcError):
        ask(tls, driver, encryption="require")


@both_drivers
@pytest.mark.parametrize("tls", ["login", "required"])
def test_it_is_taken_when_it_is_trusted_on_purpose_or_named(
    ask: Ask, driver: str, tls: str, certificate: CertificateFiles
) -> None:
    assert ask(tls, driver, encryption="require", trust_server_certificate=True) == 1
    assert ask(tls, driver, encryption="require", certificate_authorities=str(certificate.certificate)) == 1


def test_where_nothing_is_asked_for_only_mssql_python_checks_the_certificate_of_a_server_that_insists(
    ask: Ask,
) -> None:
    with pytest.raises(MssqlCdcError):
        ask("required", "mssql-python")
    assert ask("required", "pymssql") == 1


@both_drivers
def test_a_server_without_encryption_is_refused_where_it_is_asked_for(ask: Ask, driver: str) -> None:
    with pytest.raises(MssqlCdcError):
        ask("off", driver, encryption="require", trust_server_certificate=True)


def test_the_refusal_says_how_to_trust_a_certificate(ask: Ask) -> None:
    with pytest.raises(ConfigurationError, match="certificate_authorities.*trust_server_certificate"):
        ask("required", "mssql-python", encryption="require")


@pytest.mark.parametrize(
    "ours", [{"encryption": "strict"}, {"encryption": "require", "certificate_host": "db"}]
)
def test_what_pymssql_has_not_is_refused_by_name(ask: Ask, ours: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="which pymssql has not"):
        ask("required", "pymssql", **ours)


def test_a_certificate_of_another_name_is_refused_unless_that_name_is_expected(
    ask: Ask, certificate: CertificateFiles
) -> None:
    trusted = {"encryption": "require", "certificate_authorities": str(certificate.certificate)}
    for unexpected in ({}, {"certificate_host": "elsewhere"}):
        with pytest.raises(MssqlCdcError):
            ask("required", "mssql-python", host="127.0.0.1", **unexpected, **trusted)
    assert ask("required", "mssql-python", host="127.0.0.1", certificate_host="localhost", **trusted) == 1
    with pytest.raises(ConnectionBroken, match="certificate"):
        ask("required", "pymssql", host="127.1", **trusted)


def test_the_documents_options_are_those_of_the_form() -> None:
    import re

    from airflow_provider_mssql_cdc.get_provider_info import get_provider_info

    text = (Path(__file__).parents[3] / "docs/security.md").read_text()
    named = set(re.findall(r'^\| `"(\w+)":', text, flags=re.MULTILINE))
    assert named <= set(get_provider_info()["connection-types"][0]["conn-fields"])
    assert named == {
        "encryption",
        "trust_server_certificate",
        "certificate_authorities",
        "certificate_host",
    }
