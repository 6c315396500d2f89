"""Which certificates a driver trusts while it connects: neither takes that as an argument.

ODBC Driver 18 asks OpenSSL's default store, FreeTDS its configuration file; both are named by an
environment variable that is read at each connect. The caller holds :data:`~.sockets.connecting`: the
environment is the process's.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings


@contextlib.contextmanager
def trusted_by_odbc(settings: ConnectionSettings) -> Iterator[None]:
    """The authorities that the connection names, in place of the system's."""
    if settings.certificate_authorities is None:
        yield
        return
    with _environment("SSL_CERT_FILE", _readable(settings.certificate_authorities, settings)):
        yield


@contextlib.contextmanager
def trusted_by_freetds(settings: ConnectionSettings) -> Iterator[None]:
    """Certificate and host name are checked when encryption is required; FreeTDS by itself checks neither.

    With ``request`` nothing is checked, as little as the server's offer to encrypt is.
    """
    if settings.encryption != "require" or settings.trust_server_certificate:
        yield
        return
    authorities = settings.certificate_authorities or ssl.get_default_verify_paths().cafile
    if authorities is None:
        raise ConfigurationError(
            f"connection {settings.conn_id!r} requires encryption and this machine has no list of "
            "authorities: name one in certificate_authorities"
        )
    with tempfile.TemporaryDirectory(prefix="mssql-cdc-") as folder:
        file = Path(folder) / "freetds.conf"
        checks = f"ca file = {_readable(authorities, settings)}\ncheck certificate hostname = yes"
        file.write_text(f"[global]\n{checks}\n")
        with _environment("FREETDSCONF", str(file)):
            yield


def _readable(path: str, settings: ConnectionSettings) -> str:
    if not Path(path).is_file() or "\n" in path:
        raise ConfigurationError(
            f"connection {settings.conn_id!r}: certificate_authorities names {path!r}, which is no file here"
        )
    return path


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before
