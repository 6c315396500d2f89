"""Listeners: accept clients, each on a separate thread; a replica's redo can be held back."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.connection import CertificateFiles, airflow_connection, tls_context
from airflow_provider_mssql_cdc.embedded.seam import Engine
from airflow_provider_mssql_cdc.embedded.tds.connection import Connection, Endpoint
from airflow_provider_mssql_cdc.embedded.tds.handshake import Tls

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
    from airflow_provider_mssql_cdc.embedded.server import EmbeddedSqlServer


log = logging.getLogger(__name__)

CLOSE_SECONDS = 10.0


class Listener:
    """Serves an engine over TDS from construction until ``close``.

    :param engine: what clients log in to.
    :param host: address to listen on.
    :param port: port to listen on; 0 takes a free one, see :attr:`port`.
    :param tls: ``"off"``: no TLS; ``"login"``: the login is encrypted, and the rest when the client asks;
        ``"required"``: everything is encrypted.
    :param certificate: PEM files to use for TLS; a new self-signed certificate when None.
    :param replica: passed to the engine's login: this listener is a replica of that name.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: str | Tls = Tls.OFF,
        certificate: CertificateFiles | None = None,
        replica: str | None = None,
    ) -> None:
        offer = Tls(tls)
        context = None if offer is Tls.OFF else tls_context(certificate)
        self._endpoint = Endpoint(engine, offer, context, replica)
        self._socket = socket.create_server((host, port), backlog=128)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._lock = threading.Lock()
        self._closed = False
        self._connections: dict[Connection, threading.Thread] = {}
        self._acceptor = threading.Thread(target=self._accept, name="tds-accept", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        with self._lock:
            return len(self._connections)

    def drop_connections(self) -> None:
        """End every connection at once, without an answer; new ones are accepted."""
        with self._lock:
            open_now = dict(self._connections)
        for connection in open_now:
            connection.close()
        for thread in open_now.values():
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS)

    def close(self) -> None:
        """Stop listening and end every connection; running statements are cancelled."""
        with self._lock:
            self._closed = True
            open_now = dict(self._connections)
        # shutdown() wakes the thread that waits in accept(); close() alone does not.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in open_now:
            connection.close()
        for thread in (self._acceptor, *open_now.values()):
            thread.join(CLOSE_SECONDS)
            if thread.is_alive():
                log.warning("thread %s has not ended after %g seconds", thread.name, CLOSE_SECONDS)

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._start(Connection(sock, self._endpoint))

    def _start(self, connection: Connection) -> None:
        thread = threading.Thread(target=self._serve, args=(connection,), name="tds-connection", daemon=True)
        with self._lock:
            if self._closed:
                connection.close()
                return
            self._connections[connection] = thread
            thread.start()

    def _serve(self, connection: Connection) -> None:
        try:
            connection.serve()
        except Exception:
            log.exception("a connection ended by an error of the embedded server")
        finally:
            with self._lock:
                self._connections.pop(connection, None)


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
