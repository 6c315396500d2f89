"""One client, from its first packet to its last."""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.seam import (
    DropConnection,
    Engine,
    EngineSession,
    SqlError,
)
from airflow_provider_mssql_cdc.embedded.seam import Message as SqlMessage
from airflow_provider_mssql_cdc.embedded.seam import ResultSet, RowCount
from airflow_provider_mssql_cdc.embedded.tds import packets, prelogin, requests, tokens
from airflow_provider_mssql_cdc.embedded.tds.answer import Answer, Interrupted
from airflow_provider_mssql_cdc.embedded.tds.inbox import Inbox
from airflow_provider_mssql_cdc.embedded.tds.login import log_in
from airflow_provider_mssql_cdc.embedded.tds.packets import Disconnected, MessageReader, MessageWriter, ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.prelogin import Tls
from airflow_provider_mssql_cdc.embedded.tds.procedures import Procedures
from airflow_provider_mssql_cdc.embedded.tds.transport import Transport
from airflow_provider_mssql_cdc.embedded.tds.type_info import UnsupportedType

log = logging.getLogger(__name__)

FATAL_SEVERITY = 20
NO_TRANSACTION_TO_ROLL_BACK = 3903

Items = Iterator[ResultSet | RowCount | SqlMessage]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What every connection of a listener shares."""

    engine: Engine
    offer: Tls
    context: ssl.SSLContext | None
    replica: str | None


class Connection:
    """Serves one socket; ``close`` may be called from another thread."""

    def __init__(self, sock: socket.socket, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport = Transport(sock)

    def close(self) -> None:
        """End the connection; a statement that runs is cancelled."""
        self._transport.close()

    def serve(self) -> None:
        """Log the client in and answer its requests until it leaves. Raises nothing."""
        reader, writer = MessageReader(self._transport), MessageWriter(self._transport)
        try:
            session = log_in(self._endpoint, self._transport, reader, writer)
            if session is not None:
                self._converse(session, reader, writer)
        except (Disconnected, ProtocolError, DropConnection, OSError) as exc:
            log.debug("connection ended: %r", exc)
        except Exception:
            log.exception("connection ended by an error of the embedded server")
        finally:
            self._transport.close()

    def _converse(self, session: EngineSession, reader: MessageReader, writer: MessageWriter) -> None:
        inbox = Inbox(reader, session.cancel)
        inbox.start()
        try:
            Conversation(session, inbox, writer).run()
        finally:
            self._transport.close()
            inbox.join()
            session.close()


class Conversation:
    """The requests of a logged-in client, one at a time."""

    def __init__(self, session: EngineSession, inbox: Inbox, writer: MessageWriter) -> None:
        self._session, self._inbox, self._writer = session, inbox, writer
        self._procedures = Procedures(session)
        self._database = session.database
        self._descriptors = itertools.count(1)
        self._descriptor = b""
        self._handlers: dict[int, Callable[[bytes, Answer], None]] = {
            packets.SQL_BATCH: self._batch,
            packets.RPC: self._calls,
            packets.TRANSACTION: self._transaction,
        }

    def run(self) -> None:
        while (message := self._inbox.take()) is not None:
            if message.kind != packets.ATTENTION:
                self._request(message)
            elif self._inbox.acknowledge_attention():
                self._writer.send(tokens.done(tokens.DONE, tokens.ATTENTION_BIT))

    def _request(self, message: packets.Message) -> None:
        handler = self._handlers.get(message.kind)
        if handler is None:
            raise ProtocolError(f"requests of packet type {message.kind} are not supported")
        answer = Answer(self._writer, lambda: self._inbox.interrupted)
        if message.ignored:
            answer.end(tokens.DONE, failed=True)
        else:
            self._handle(message, handler, answer)
        self._writer.finish()

    def _handle(
        self, message: packets.Message, handler: Callable[[bytes, Answer], None], answer: Answer
    ) -> None:
        try:
            with self._inbox.running():
                if message.resets:
                    self._reset(answer)
                handler(message.body, answer)
        except DropConnection:
            self._writer.flush()
            raise
        except Interrupted:
            pass
        if self._inbox.acknowledge_attention():
            answer.attention()
        elif self._inbox.interrupted:
            raise Disconnected

    def _reset(self, answer: Answer) -> None:
        self._session.reset()
        answer.write(tokens.environment_bytes(tokens.RESET_ACKNOWLEDGED))

    def _batch(self, body: bytes, answer: Answer) -> None:
        statement = requests.sql_batch(body)
        failed = self._attempt(answer, lambda: self._run(answer, self._session.execute(statement), procedure=False))
        answer.end(tokens.DONE, failed=failed)

    def _calls(self, body: bytes, answer: Answer) -> None:
        calls: list[requests.Call] = []
        failed = self._attempt(answer, lambda: calls.extend(requests.calls(body)))
        if failed:
            answer.end(tokens.DONE, failed=True)
        for at, call in enumerate(calls, start=1):
            failed = self._attempt(answer, lambda call=call: self._call(answer, call))  # type: ignore[misc]
            answer.end(tokens.DONEPROC, failed=failed, more=at < len(calls))

    def _call(self, answer: Answer, call: requests.Call) -> None:
        values = self._procedures.run(call, lambda items: self._run(answer, items, procedure=True))
        answer.write(tokens.return_status())
        for value in values:
            answer.write(value)

    def _transaction(self, body: bytes, answer: Answer) -> None:
        request = requests.transaction(body)
        failed = self._attempt(answer, lambda: self._transact(request, answer))
        answer.end(tokens.DONE, failed=failed)

    def _transact(self, request: requests.TransactionRequest, answer: Answer) -> None:
        if request.kind != requests.BEGIN:
            self._end_transaction(request.kind, answer)
        if request.kind == requests.BEGIN or request.begins_next:
            self._begin_transaction(request.isolation, answer)

    def _begin_transaction(self, isolation: str | None, answer: Answer) -> None:
        if isolation:
            for _ in self._session.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}"):
                pass
        self._session.begin()
        self._descriptor = struct.pack("<Q", next(self._descriptors))
        answer.write(tokens.environment_bytes(tokens.BEGIN_TRANSACTION, self._descriptor))

    def _end_transaction(self, kind: int, answer: Answer) -> None:
        """A transaction that the server has rolled back, as for a deadlock, may be rolled back again."""
        if kind == requests.COMMIT:
            self._session.commit()
            change = tokens.COMMIT_TRANSACTION
        else:
            change = tokens.ROLLBACK_TRANSACTION
            try:
                self._session.rollback()
            except SqlError as error:
                if error.number != NO_TRANSACTION_TO_ROLL_BACK:
                    raise
        answer.write(tokens.environment_bytes(change, old=self._descriptor))
        self._descriptor = b""

    def _run(self, answer: Answer, items: Items, *, procedure: bool) -> None:
        answer.statement(self._watched(answer, items), procedure=procedure)

    def _watched(self, answer: Answer, items: Items) -> Items:
        """Tell the client when a statement has changed the database."""
        for item in items:
            self._tell_database(answer)
            yield item
        self._tell_database(answer)

    def _tell_database(self, answer: Answer) -> None:
        if (database := self._session.database) != self._database:
            answer.write(tokens.environment_text(tokens.DATABASE, database, self._database))
            self._database = database

    def _attempt(self, answer: Answer, action: Callable[[], None]) -> bool:
        """Run; an error becomes an ERROR token, and True."""
        try:
            action()
        except (DropConnection, Interrupted, Disconnected, OSError):
            raise
        except Exception as exc:
            if self._inbox.interrupted:
                raise Interrupted from exc
            error = sql_error(exc)
            answer.error(error)
            if error.severity >= FATAL_SEVERITY:
                answer.end(tokens.DONE, failed=True)
                self._writer.finish()
                raise Disconnected from exc
            return True
        return False


def sql_error(exc: Exception) -> SqlError:
    """What a client is told about an exception; one that nobody planned is logged, too."""
    if isinstance(exc, SqlError):
        return exc
    if isinstance(exc, UnsupportedType):
        return SqlError(243, f"{exc}.")
    log.error("the embedded server failed while it answered", exc_info=exc)
    return SqlError(50000, f"The embedded server failed: {type(exc).__name__}: {exc}")
