"""The listener: accepts clients and gives each a connection on a thread of its own."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from types import TracebackType

from airflow_provider_mssql_cdc.embedded.certificate import CertificateFiles, tls_context
from airflow_provider_mssql_cdc.embedded.seam import Engine
from airflow_provider_mssql_cdc.embedded.tds.connection import Connection
from airflow_provider_mssql_cdc.embedded.tds.login import Endpoint
from airflow_provider_mssql_cdc.embedded.tds.prelogin import Tls

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
