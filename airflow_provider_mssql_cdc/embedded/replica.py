"""A second listener over the same databases, whose redo can be held back."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.connection import airflow_connection
from airflow_provider_mssql_cdc.embedded.listener import Listener

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.session import Session
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer


class Replica:
    """A readable secondary: tables and change tables as of one redo point.

    It follows the primary until ``hold``; then it stays where it is until ``catch_up``. While it follows,
    the redo is done when somebody reads, not at each commit: nobody can tell the difference.
    """

    def __init__(self, server: EmbeddedSqlServer, name: str) -> None:
        self._server, self.name = server, name
        self._held, self._behind = False, False
        self._lock = threading.RLock()
        server.engine.add_replica(name)
        server.engine.hooks.committed.append(self._committed)
        server.engine.hooks.before_statement.append(self._before_statement)
        self._listener = Listener(server.front, tls=server.tls, replica=name)

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._listener.host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._listener.port

    def airflow_connection(
        self,
        *,
        login: str = "sa",
        password: str | None = None,
        database: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """As the server's own, for this listener."""
        return airflow_connection(
            host=self.host,
            port=self.port,
            login=login,
            password=self._server.password_of(login) if password is None else password,
            database=database or self._server.database,
            tls=self._server.tls,
            extra=extra,
        )

    def hold(self) -> None:
        """Stop the redo here: what commits from now on is not seen on this listener."""
        with self._lock:
            self._follow()
            self._held = True

    def redo(self) -> None:
        """Bring a held replica to the primary's last commit; it stays held."""
        with self._lock:
            self._behind = False
            self._server.engine.redo(self.name)

    def catch_up(self) -> None:
        """Bring it to the primary's last commit and follow again."""
        with self._lock:
            self._held = False
            self.redo()

    def close(self) -> None:
        """Stop listening."""
        self._server.engine.hooks.committed.remove(self._committed)
        self._server.engine.hooks.before_statement.remove(self._before_statement)
        self._listener.close()

    def _committed(self, session: object, database: str) -> None:
        self._behind = True

    def _before_statement(self, session: Session, text: str) -> None:
        if session.replica == self.name:
            with self._lock:
                self._follow()

    def _follow(self) -> None:
        if self._behind and not self._held:
            self.redo()
