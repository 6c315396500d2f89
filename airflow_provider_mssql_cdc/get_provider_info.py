"""Describe this provider to Airflow; every Airflow process reads it, so it imports nothing heavy."""

from __future__ import annotations

from typing import Any

from airflow_provider_mssql_cdc import __version__

_INTEGRATION = "SQL Server change data capture"
_PACKAGE = "airflow_provider_mssql_cdc"


def _field(label: str, description: str, kind: str, **schema: Any) -> dict[str, Any]:
    """Describe an optional form field; without a default, an untouched field stores nothing."""
    return {"label": label, "description": description, "schema": {"type": [kind, "null"], **schema}}


_FORM = {
    "driver": _field(
        "Driver",
        "If empty, mssql-python when it is installed, else pymssql.",
        "string",
        enum=["mssql-python", "pymssql"],
    ),
    "encryption": _field(
        "Encryption",
        "If empty, request: encrypted when the server requires it. require encrypts everything and checks "
        "the certificate. strict is TDS 8, only with mssql-python.",
        "string",
        enum=["request", "require", "strict", "off"],
    ),
    "trust_server_certificate": _field(
        "Trust any server certificate",
        "Accept any certificate, also a self-signed one: encrypted, but open to a man in the middle.",
        "boolean",
        default=False,
    ),
    "certificate_authorities": _field(
        "CA file",
        "Path of a PEM file on each worker with the trusted authorities, for instance /etc/ssl/erp-ca.pem.",
        "string",
    ),
    "certificate_host": _field(
        "Host name in certificate",
        "Another name that the certificate may have; only with mssql-python.",
        "string",
    ),
    "application_intent": _field(
        "Application intent",
        "ReadOnly lets an availability group route the reads to a readable secondary.",
        "string",
        enum=["ReadWrite", "ReadOnly"],
    ),
    "multi_subnet_failover": _field(
        "Multi-subnet failover",
        "For a listener with addresses in several subnets; only with mssql-python.",
        "boolean",
        default=False,
    ),
    "isolation": _field(
        "Isolation",
        "Isolation of reads whose table sets none. If empty, READ COMMITTED; snapshot needs "
        "ALLOW_SNAPSHOT_ISOLATION in the database.",
        "string",
        enum=["read committed", "snapshot"],
    ),
    "login_timeout_seconds": _field(
        "Login timeout (s)", "For the connection and the login; 30 when empty.", "integer", minimum=0
    ),
    "query_timeout_seconds": _field(
        "Query timeout (s)",
        "Longest time without data within a statement; 3600 when empty, 0 waits without limit.",
        "integer",
        minimum=0,
    ),
    "lock_timeout_seconds": _field(
        "Lock timeout (s)",
        "Longest wait for a lock (error 1222); 300 when empty, 0 waits without limit.",
        "integer",
        minimum=0,
    ),
}


def get_provider_info() -> dict[str, Any]:
    """Return the provider info of entry point ``apache_airflow_provider`` (``provider_info.schema.json``)."""
    # The form is data here ("conn-fields" in Airflow's provider.yaml.schema.json): hook methods for it are
    # deprecated since Airflow 3.2.
    return {
        "package-name": "airflow-provider-mssql-cdc",
        "name": "SQL Server CDC to Delta Lake",
        "description": "Loads SQL Server tables under change data capture into Delta Lake.",
        "versions": [__version__],
        "integrations": [
            {
                "integration-name": _INTEGRATION,
                "external-doc-url": "https://github.com/airflow-provider-mssql-cdc/airflow-provider-mssql-cdc/tree/main/docs",
                "tags": ["software"],
            }
        ],
        "config": {
            "mssql_cdc": {
                "description": "SQL Server CDC to Delta Lake.",
                "options": {
                    "facts": {
                        "description": (
                            'Facts tables that the page "SQL Server CDC" shows: a path, or a JSON list of '
                            'paths and of {"path", "delta_conn_id"}, the connection of the object store.'
                        ),
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": '["/lake/facts", {"path": "s3://lake/facts", "delta_conn_id": "lake"}]',
                        "default": "",
                    }
                },
            }
        },
        "cli": [f"{_PACKAGE}.cli.get_commands"],
        "operators": [
            _modules(
                "operators.plan",
                "operators.snapshot",
                "operators.chunk",
                "operators.complete",
                "operators.on_call",
                "operators.changes",
                "operators.merge",
                "operators.reconcile",
                "operators.freshness",
                "operators.upkeep",
                "operators.database",
            )
        ],
        "sensors": [_modules("sensors.capture", "sensors.freshness")],
        "triggers": [_modules("triggers.capture")],
        "hooks": [_modules("hooks.mssql_cdc")],
        "connection-types": [
            {
                "connection-type": "mssql_cdc",
                "hook-class-name": f"{_PACKAGE}.hooks.mssql_cdc.MssqlCdcHook",
                "hook-name": "SQL Server (CDC)",
                "ui-field-behaviour": {
                    "relabeling": {"schema": "Database"},
                    "placeholders": {
                        "host": "erp-db.internal, or server\\instance",
                        "port": "1433",
                        "schema": "the database whose tables are loaded",
                        "login": "loader",
                    },
                },
                "conn-fields": _FORM,
            }
        ],
        "extra-links": [f"{_PACKAGE}.operators.links.MssqlCdcFactsLink"],
    }


def _modules(*names: str) -> dict[str, Any]:
    return {
        "integration-name": _INTEGRATION,
        "python-modules": [f"{_PACKAGE}.{name}" for name in names],
    }
