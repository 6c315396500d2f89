"""``MssqlCdcHook``: Airflow's ``MsSqlHook`` on the same connection, with sessions that read for CDC.

Importing this module imports the provider's hook and with it pymssql, so operators import it in
``execute``, never where a DAG is parsed.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from airflow.providers.microsoft.mssql.hooks.mssql import MsSqlHook

from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.extras import pymssql_extras, read_extras
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.source.settings import DEFAULT_PORT, ConnectionSettings

if TYPE_CHECKING:
    from airflow.sdk import Connection


class MssqlCdcHook(MsSqlHook):
    """Read SQL Server tables and their changes through an Airflow connection of type ``mssql``.

    Everything that ``MsSqlHook`` does works as it does there; statements are not logged, because their
    parameters are key values. What belongs to this package is in the connection's extra under
    ``mssql_cdc``, for instance ``{"mssql_cdc": {"driver": "pymssql", "trust_server_certificate": true}}``.

    :param mssql_conn_id: the Airflow connection.
    :param schema: database to use in place of the connection's.
    """

    def __init__(self, mssql_conn_id: str = MsSqlHook.default_conn_name, **kwargs: Any) -> None:
        self._given: Connection | None = kwargs.pop("connection", None)
        if self._given is not None:
            kwargs["connection"] = _for_pymssql(self._given)
        kwargs.setdefault("log_sql", False)
        super().__init__(mssql_conn_id, **kwargs)
        self.mssql_conn_id = mssql_conn_id
        self._settings: ConnectionSettings | None = None

    @property
    def settings(self) -> ConnectionSettings:
        """What the connection says, checked; its repr holds no password.

        :raises ConfigurationError: names what is missing, unknown or belongs to another driver.
        """
        if self._settings is None:
            original = self._given or super().get_connection(self.mssql_conn_id)
            self._settings = settings_of(original, database=self.schema)
        return self._settings

    def session(self, *, isolation: str | None = None) -> SourceSession:
        """A session over a connection of its own; use it in ``with``.

        :param isolation: None for READ COMMITTED, ``"snapshot"`` for SNAPSHOT.
        """
        return SourceSession(self.settings, isolation=isolation)

    @classmethod
    def get_connection(cls, conn_id: str) -> Connection:
        """The connection as ``MsSqlHook`` can use it: ours taken out of the extra, port 1433 when missing."""
        return _for_pymssql(super().get_connection(conn_id))


def _for_pymssql(connection: Connection) -> Connection:
    """Nothing is left in it that ``pymssql.connect`` would stumble over.

    :raises ConfigurationError: an extra that belongs to neither driver.
    """
    extras = connection.extra_dejson
    read_extras(extras, conn_id=connection.conn_id)
    plain = copy.copy(connection)
    plain.port = connection.port or DEFAULT_PORT
    plain.extra = json.dumps(pymssql_extras(extras))
    return plain
