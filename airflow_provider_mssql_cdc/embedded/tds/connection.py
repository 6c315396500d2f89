"""One client, from its first packet to its last: PRELOGIN, TLS, LOGIN7, then its requests."""

from __future__ import annotations

import logging
import socket
import ssl
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.seam import DropConnection, Engine, EngineSession, SqlError
from airflow_provider_mssql_cdc.embedded.tds import handshake, packets, tokens
from airflow_provider_mssql_cdc.embedded.tds.conversation import Conversation
from airflow_provider_mssql_cdc.embedded.tds.handshake import Encryption, Tls
from airflow_provider_mssql_cdc.embedded.tds.packets import (
    Disconnected,
    Inbox,
    MessageReader,
    MessageWriter,
    ProtocolError,
    TlsEngine,
    Transport,
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What every connection of a listener shares."""

    engine: Engine
    offer: Tls
    context: ssl.SSLContext | None
    replica: str | None


def log_in(
    endpoint: Endpoint, transport: Transport, reader: MessageReader, writer: MessageWriter
) -> EngineSession | None:
    """Run the handshake and log in; None when the client was refused, which it has been told."""
    encryption = _negotiate(endpoint, transport, reader, writer)
    message = _expect(reader, packets.LOGIN7)
    if encryption is Encryption.LOGIN_ONLY:
        transport.stop_tls()
    login = handshake.parse_login7(message.body)
    try:
        session = _open(endpoint, login)
    except SqlError as error:
        refusal = tokens.message(error.number, error.text, severity=error.severity, state=error.state)
        writer.send(refusal + tokens.done(tokens.DONE, tokens.ERROR_BIT))
        return None
    writer.session_id = session.session_id & 0xFFFF
    writer.send(welcome(login, session.database))
    writer.packet_bytes = login.packet_bytes
    return session


def welcome(login: handshake.Login, database: str) -> bytes:
    """What a client is told when it has logged in."""
    out = tokens.environment_text(tokens.DATABASE, database, "master")
    out += tokens.message(5701, f"Changed database context to '{database}'.", state=2)
    out += tokens.server_collation()
    out += tokens.environment_text(tokens.LANGUAGE, "us_english", "")
    out += tokens.message(5703, "Changed language setting to us_english.")
    out += tokens.login_acknowledged()
    if login.packet_bytes != packets.DEFAULT_PACKET_BYTES:
        new, old = str(login.packet_bytes), str(packets.DEFAULT_PACKET_BYTES)
        out += tokens.environment_text(tokens.PACKET_SIZE, new, old)
    if login.features:
        known = {handshake.FEATURE_UTF8: b"\x01"} if handshake.FEATURE_UTF8 in login.features else {}
        out += tokens.features_acknowledged(known)
    return out + tokens.done(tokens.DONE, 0)


def _negotiate(
    endpoint: Endpoint, transport: Transport, reader: MessageReader, writer: MessageWriter
) -> Encryption:
    client = handshake.parse_prelogin(_expect(reader, packets.PRELOGIN).body)
    byte, encryption = handshake.settle(client, endpoint.offer)
    writer.send(handshake.answer(client, byte))
    if encryption is Encryption.NONE:
        return encryption
    if endpoint.context is None:
        raise ProtocolError("TLS was offered without a certificate")
    engine = TlsEngine(endpoint.context)
    engine.handshake(
        lambda: _expect(reader, packets.PRELOGIN).body,
        lambda data: writer.send(data, packets.PRELOGIN),
    )
    transport.start_tls(engine)
    return encryption


def _open(endpoint: Endpoint, login: handshake.Login) -> EngineSession:
    if login.tds_version < handshake.TDS_7_4:
        raise SqlError(17836, "The embedded server speaks TDS 7.4 only.", severity=20)
    if login.integrated_security:
        raise SqlError(18452, "Login failed. The embedded server knows SQL Server logins only.", severity=14)
    return endpoint.engine.login(login.user, login.password, login.database, replica=endpoint.replica)


def _expect(reader: MessageReader, kind: int) -> packets.Message:
    message = reader.read()
    if message.kind != kind:
        raise ProtocolError(f"packet type {message.kind} came where {kind} belongs")
    return message


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
