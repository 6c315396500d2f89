"""The requests of a client that is logged in, one after the other."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from airflow_provider_mssql_cdc.embedded.seam import (
    DropConnection,
    EngineSession,
    Message,
    ResultSet,
    RowCount,
    SqlError,
)
from airflow_provider_mssql_cdc.embedded.tds import packets, requests, tokens
from airflow_provider_mssql_cdc.embedded.tds.answer import Answer, Interrupted
from airflow_provider_mssql_cdc.embedded.tds.packets import Disconnected, Inbox, MessageWriter, ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.procedures import Procedures, Transactions
from airflow_provider_mssql_cdc.embedded.tds.type_info import UnsupportedType

log = logging.getLogger(__name__)

FATAL_SEVERITY = 20

Handler = Callable[[bytes, Answer], None]
Items = Iterator[ResultSet | RowCount | Message]


class Conversation:
    """Answers requests until the client leaves or the connection is to be dropped."""

    def __init__(self, session: EngineSession, inbox: Inbox, writer: MessageWriter) -> None:
        self._session, self._inbox, self._writer = session, inbox, writer
        self._procedures, self._transactions = Procedures(session), Transactions(session)
        self._database = session.database
        self._handlers: dict[int, Handler] = {
            packets.SQL_BATCH: self._batch,
            packets.RPC: self._calls,
            packets.TRANSACTION: self._transaction,
        }

    def run(self) -> None:
        """Raises Disconnected, ProtocolError, DropConnection or OSError unless the client just leaves."""
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

    def _handle(self, message: packets.Message, handler: Handler, answer: Answer) -> None:
        try:
            with self._inbox.running():
                if self._inbox.interrupted:
                    raise Interrupted
                if message.resets:
                    self._session.reset()
                    answer.write(tokens.environment_bytes(tokens.RESET_ACKNOWLEDGED))
                handler(message.body, answer)
        except DropConnection as drop:
            answer.break_off(between_rows=drop.between_rows)
            raise
        except Interrupted:
            pass
        if self._inbox.acknowledge_attention():
            answer.attention()
        elif self._inbox.interrupted:
            raise Disconnected

    def _batch(self, body: bytes, answer: Answer) -> None:
        statement = requests.sql_batch(body)

        def execute() -> None:
            self._run(answer, self._session.execute(statement), procedure=False)

        answer.end(tokens.DONE, failed=self._fails(answer, execute))

    def _calls(self, body: bytes, answer: Answer) -> None:
        calls: list[requests.Call] = []
        if self._fails(answer, lambda: calls.extend(requests.calls(body))):
            answer.end(tokens.DONE, failed=True)
        for at, call in enumerate(calls, start=1):
            failed = self._call(call, answer)
            answer.end(tokens.DONEPROC, failed=failed, more=at < len(calls))

    def _call(self, call: requests.Call, answer: Answer) -> bool:
        def execute() -> None:
            values = self._procedures.run(call, lambda items: self._run(answer, items, procedure=True))
            answer.write(tokens.return_status() + b"".join(values))

        return self._fails(answer, execute)

    def _transaction(self, body: bytes, answer: Answer) -> None:
        request = requests.transaction(body)
        failed = self._fails(answer, lambda: self._transactions.handle(request, answer.write))
        answer.end(tokens.DONE, failed=failed)

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

    def _fails(self, answer: Answer, action: Callable[[], None]) -> bool:
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
