"""The embedded server as an Airflow connection, with its self-signed certificate."""

from __future__ import annotations

import datetime
import ipaddress
import json
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

VALID_DAYS = 365


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """A certificate and its private key, as PEM files."""

    certificate: Path
    key: Path


def self_signed(folder: Path, host: str = "localhost") -> CertificateFiles:
    """Write a new certificate for ``host``, localhost and 127.0.0.1, valid for a year from yesterday."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    names: list[x509.GeneralName] = [x509.DNSName(n) for n in dict.fromkeys((host, "localhost"))]
    names.append(x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(yesterday)
        .not_valid_after(yesterday + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = CertificateFiles(folder / "server.pem", folder / "server.key")
    files.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files


def tls_context(files: CertificateFiles | None = None) -> ssl.SSLContext:
    """A server's TLS context from files, or from a new self-signed certificate that is kept nowhere.

    TLS 1.2 at most: TLS 1.3 sends session tickets after the handshake, where TDS 7.4 has no place for them.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    if files is not None:
        context.load_cert_chain(files.certificate, files.key)
        return context
    with tempfile.TemporaryDirectory() as folder:
        made = self_signed(Path(folder))
        context.load_cert_chain(made.certificate, made.key)
    return context


def airflow_connection(
    *,
    host: str,
    port: int,
    login: str,
    password: str,
    database: str,
    tls: str,
    extra: Mapping[str, Any] | None = None,
) -> str:
    """The JSON for an ``AIRFLOW_CONN_*`` variable, as ``MssqlCdcHook`` reads it.

    :param tls: the listener's mode; its certificate is self-signed, so it is trusted.
    :param extra: more extras; one with the name of ours replaces it.
    """
    merged: dict[str, Any] = {"encryption": {"off": "off", "login": "request", "required": "require"}[tls]}
    if tls != "off":
        merged["trust_server_certificate"] = True
    merged |= extra or {}
    return json.dumps(
        {
            "conn_type": "mssql_cdc",
            "host": host,
            "port": port,
            "login": login,
            "password": password,
            "schema": database,
            "extra": merged,
        }
    )
