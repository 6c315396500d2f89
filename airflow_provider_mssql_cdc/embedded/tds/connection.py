"""One client, from its first packet to its last."""

from __future__ import annotations

import logging
import socket

from airflow_provider_mssql_cdc.embedded.seam import DropConnection, EngineSession
from airflow_provider_mssql_cdc.embedded.tds.conversation import Conversation
from airflow_provider_mssql_cdc.embedded.tds.inbox import Inbox
from airflow_provider_mssql_cdc.embedded.tds.login import Endpoint, log_in
from airflow_provider_mssql_cdc.embedded.tds.packets import (
    Disconnected,
    MessageReader,
    MessageWriter,
    ProtocolError,
)
from airflow_provider_mssql_cdc.embedded.tds.transport import Transport

log = logging.getLogger(__name__)


class Connection:
    """Serves one socket; ``close`` may be called from another thread."""

    def __init__(self, sock: socket.socket, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport = Transport(sock)

    def close(self) -> None:
        """End the connection; a statement that runs is cancelled."""
        self._transport.close()

    def serve(self) -> None:
        """Log the client in and answer its requests until it leaves; the socket is closed at the end."""
        reader, writer = MessageReader(self._transport), MessageWriter(self._transport)
        try:
            session = log_in(self._endpoint, self._transport, reader, writer)
            if session is not None:
                self._converse(session, reader, writer)
        except (Disconnected, ProtocolError, DropConnection, OSError) as exc:
            log.debug("connection ended: %r", exc)
        finally:
            self._transport.close()

    def _converse(self, session: EngineSession, reader: MessageReader, writer: MessageWriter) -> None:
        inbox = Inbox(reader, session.cancel)
        inbox.start()
        try:
            Conversation(session, inbox, writer).run()
        finally:
            # In this order: the inbox's thread ends with the socket, and may use the session until then.
            self._transport.close()
            inbox.join()
            session.close()
