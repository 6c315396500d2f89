"""``MssqlCdcHook``: Airflow's ``MsSqlHook`` for connections of type ``mssql_cdc``, with sessions for CDC.

The form of the connection type is in ``get_provider_info``.
"""
# Importing this module imports pymssql through MsSqlHook: operators import it in execute, so that parsing
# a DAG stays cheap (Airflow docs, "Best Practices", top level Python code).

from __future__ import annotations

import copy
import json
import logging
from typing import TYPE_CHECKING, Any

from airflow.providers.microsoft.mssql.hooks.mssql import MsSqlHook

from airflow_provider_mssql_cdc.errors import MssqlCdcError
from airflow_provider_mssql_cdc.source.connect import CONNECTION_TYPE, refuse_other_types, settings_of
from airflow_provider_mssql_cdc.source.connection_report import connection_report
from airflow_provider_mssql_cdc.source.pymssql import plain_connection
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import (
    DEFAULT_PORT,
    ConnectionSettings,
    foreign_to_mssql_hook,
    pymssql_extras,
    read_extras,
)

if TYPE_CHECKING:
    from airflow.sdk import Connection

log = logging.getLogger(__name__)

_OF_A_CURSOR = ("autocommit", "as_dict", "arraysize", "use_datetime2", "charset")
_warned: set[str] = set()


class MssqlCdcHook(MsSqlHook):
    """Read SQL Server tables and their changes through an Airflow connection of type ``mssql_cdc``.

    It supports everything that ``MsSqlHook`` does, with pymssql, also in ``SQLExecuteQueryOperator``. A
    connection of type ``mssql`` is accepted too.

    :param mssql_conn_id: id of the Airflow connection.
    :param schema: database to use instead of the connection's.
    """

    conn_type = CONNECTION_TYPE
    hook_name = "SQL Server (CDC)"
    default_conn_name = "mssql_cdc_default"

    def __init__(self, mssql_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        self._given: Connection | None = kwargs.pop("connection", None)
        if self._given is not None:
            kwargs["connection"] = _for_pymssql(self._given)
        kwargs.setdefault("log_sql", False)  # parameters are key values, which must not be logged
        super().__init__(mssql_conn_id, **kwargs)
        self.mssql_conn_id = mssql_conn_id
        self._settings: ConnectionSettings | None = None

    @property
    def settings(self) -> ConnectionSettings:
        """The connection's settings, checked; the repr holds no password.

        :raises ConfigurationError: a field is missing, unknown or of another driver.
        """
        if self._settings is None:
            original = self._given or super().get_connection(self.mssql_conn_id)
            self._settings = settings_of(original, database=self.schema)
            _warn_of_foreign_extras(original)
        return self._settings

    def session(self, *, isolation: str | None = None) -> SourceSession:
        """Open a session over a new connection; use it in ``with``.

        :param isolation: ``"snapshot"`` for SNAPSHOT; None for the connection's isolation, by default
            READ COMMITTED.
        """
        return SourceSession(self.settings, isolation=isolation or self.settings.isolation)

    def get_conn(self) -> Any:
        """Open a ``pymssql`` connection; type ``mssql_cdc`` uses the same encryption and trust as reads."""
        if self.connection.conn_type != CONNECTION_TYPE:
            return super().get_conn()
        extras = self.connection.extra_dejson
        cursors = {name: extras[name] for name in _OF_A_CURSOR if name in extras}
        return plain_connection(self.settings, cursors)

    def test_connection(self) -> tuple[bool, str]:  # type: ignore[override] # DbApiHook's has no annotation
        """Report the server, the database, CDC, and the login's rights, for "Test" in Airflow's UI."""
        # The test runs in the API server, with the driver that is installed there.
        try:
            with self.session() as session:
                return True, connection_report(session)
        except MssqlCdcError as exc:
            return False, str(exc)

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """Return the connection as ``MsSqlHook`` uses it: only pymssql's extras, port 1433 by default."""
        return _for_pymssql(super().get_connection(conn_id))


def _for_pymssql(connection: Connection) -> Connection:
    """Copy a connection with only the extras that ``pymssql.connect`` accepts.

    :raises ConfigurationError: a connection of another type, or an unknown extra.
    """
    # MsSqlHook passes every extra to pymssql.connect as a keyword argument.
    refuse_other_types(connection)
    extras = connection.extra_dejson
    read_extras(extras, conn_id=connection.conn_id)
    plain = copy.copy(connection)
    plain.port = connection.port or DEFAULT_PORT
    plain.extra = json.dumps(pymssql_extras(extras))
    return plain


def _warn_of_foreign_extras(connection: Connection) -> None:
    """Warn once per connection and process about extras that work here and break ``MsSqlHook``."""
    if connection.conn_type == CONNECTION_TYPE or connection.conn_id in _warned:
        return
    if foreign := foreign_to_mssql_hook(connection.extra_dejson):
        _warned.add(connection.conn_id)
        log.warning(
            "connection %s of type %s has extra %s: MsSqlHook and the UI's test cannot open it (connect() "
            "got an unexpected keyword argument %r). Change its type to %s, which has form fields for these",
            connection.conn_id,
            connection.conn_type,
            ", ".join(foreign),
            foreign[0],
            CONNECTION_TYPE,
        )
