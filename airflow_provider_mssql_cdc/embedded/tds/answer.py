"""One answer: what a session yields, as tokens, while it is being yielded."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from airflow_provider_mssql_cdc.embedded.seam import Message, ResultSet, RowCount, SqlError
from airflow_provider_mssql_cdc.embedded.tds import tokens
from airflow_provider_mssql_cdc.embedded.tds.packets import MessageWriter
from airflow_provider_mssql_cdc.embedded.tds.rows import encode_batches
from airflow_provider_mssql_cdc.embedded.tds.type_info import is_large

#: Rows are sent when so many bytes of them wait.
SEND_BYTES = 1 << 17
#: The same for results with large values. mssql-python waits for these with the interpreter's lock held; in
#: its own process this server could not go on then. So it has the end of the answer ready first, up to here.
HELD_BYTES = 1 << 25

Items = Iterable[ResultSet | RowCount | Message]


class Interrupted(Exception):
    """The client has sent ATTENTION or has gone; what is left of the answer is not wanted."""


class Answer:
    """Writes the tokens of one request.

    Whether more follows is a bit of the DONE token before it, so the last DONE is held back until the next
    item or the end is known. Inside a procedure every statement ends with DONEINPROC.
    """

    def __init__(self, writer: MessageWriter, interrupted: Callable[[], bool]) -> None:
        self._writer, self._interrupted = writer, interrupted
        self._held: tuple[int, int | None, int] | None = None
        self._large = False

    def write(self, data: bytes) -> None:
        """Add a token that is not a result."""
        self._release(more=True)
        self._writer.write(data)

    def statement(self, items: Items, *, procedure: bool) -> None:
        """Write all that a statement gives; raises what the session raises, and Interrupted."""
        kind = tokens.DONEINPROC if procedure else tokens.DONE
        for item in items:
            self._check()
            if isinstance(item, ResultSet):
                self._result_set(item, kind)
            elif isinstance(item, RowCount):
                self._hold(kind, item.rows, 0)
            else:
                self.write(tokens.message(item.number, item.text))
        self._check()

    def error(self, error: SqlError) -> None:
        severity = max(tokens.LEAST_ERROR, error.severity)
        self.write(tokens.message(error.number, error.text, severity=severity, state=error.state))

    def end(self, kind: int, *, failed: bool = False, more: bool = False) -> None:
        """Write the DONE that closes a batch or a procedure, unless the last statement's own one does."""
        if self._held and kind == tokens.DONE and not failed:
            self._release(more=more)
            return
        self._release(more=True)
        status = (tokens.ERROR_BIT if failed else 0) | (tokens.MORE if more else 0)
        self._writer.write(tokens.done(kind, status))

    def attention(self) -> None:
        """Write the DONE that says that the client was heard.

        The statement's own DONE comes first, as an error: msodbcsql takes a statement that was cancelled
        before its first token for a success otherwise.
        """
        self._release(more=True)
        self._writer.write(tokens.done(tokens.DONE, tokens.ERROR_BIT | tokens.MORE))
        self._writer.write(tokens.done(tokens.DONE, tokens.ATTENTION_BIT))

    def break_off(self, *, between_rows: bool) -> None:
        """Send the rows that wait, without an end, before the connection is dropped."""
        if not self._large:
            self._writer.break_off(whole=between_rows)

    def _result_set(self, result: ResultSet, kind: int) -> None:
        self.write(tokens.column_metadata(result.columns))
        self._large = any(is_large(column.type) for column in result.columns)
        limit = HELD_BYTES if self._large else SEND_BYTES
        rows = 0
        for count, data in encode_batches(result.columns, result.batches):
            self._check()
            self._writer.write(data)
            self._writer.send_above(limit)
            rows += count
        self._hold(kind, rows, tokens.SELECT_COMMAND)

    def _hold(self, kind: int, rows: int | None, command: int) -> None:
        self._release(more=True)
        self._held = (kind, rows, command)

    def _release(self, *, more: bool) -> None:
        if self._held:
            kind, rows, command = self._held
            self._held = None
            self._writer.write(tokens.done(kind, tokens.MORE if more else 0, rows, command))

    def _check(self) -> None:
        if self._interrupted():
            raise Interrupted
