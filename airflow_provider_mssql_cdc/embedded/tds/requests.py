"""What a client asks for: SQL batches, remote procedure calls, transaction requests."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_mssql_cdc.embedded.seam import Parameter
from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.parameters import Cursor, parameter

BEGIN, COMMIT, ROLLBACK = 5, 7, 8

_BATCH_SEPARATORS = (0x80, 0xFE, 0xFF)
_NAME_IS_NUMBER = 0xFFFF
_BEGIN_NEXT = 0x01

#: Procedures that a client may call by number (section 2.2.6.6).
PROCEDURES = {
    1: "sp_cursor",
    2: "sp_cursoropen",
    3: "sp_cursorprepare",
    4: "sp_cursorexecute",
    5: "sp_cursorprepexec",
    6: "sp_cursorunprepare",
    7: "sp_cursorfetch",
    8: "sp_cursoroption",
    9: "sp_cursorclose",
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}

ISOLATION_LEVELS = {
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One remote procedure call; several may come in one message."""

    procedure: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """Begin, commit or roll back; ``begins_next`` opens another transaction at once."""

    kind: int
    isolation: str | None
    begins_next: bool = False


def sql_batch(body: bytes) -> str:
    cursor = _after_headers(body)
    return cursor.rest().decode("utf-16-le", "surrogatepass")


def calls(body: bytes) -> list[Call]:
    cursor = _after_headers(body)
    found = []
    while not cursor.exhausted:
        found.append(_call(cursor))
    return found


def transaction(body: bytes) -> TransactionRequest:
    """TM_BEGIN_XACT, TM_COMMIT_XACT or TM_ROLLBACK_XACT (section 2.2.6.9)."""
    cursor = _after_headers(body)
    kind = cursor.number(2)
    if kind == BEGIN:
        return TransactionRequest(kind, ISOLATION_LEVELS.get(cursor.number(1)))
    if kind not in (COMMIT, ROLLBACK):
        raise ProtocolError(f"transaction request {kind} is not supported")
    cursor.take(cursor.number(1))
    if cursor.exhausted or not cursor.number(1) & _BEGIN_NEXT:
        return TransactionRequest(kind, None)
    return TransactionRequest(kind, ISOLATION_LEVELS.get(cursor.number(1)), begins_next=True)


def _after_headers(body: bytes) -> Cursor:
    """Skip ALL_HEADERS, whose first field is its own length."""
    cursor = Cursor(body)
    length = cursor.number(4)
    if length < 4:
        raise ProtocolError("the request has no headers: the client does not speak TDS 7.2 or later")
    cursor.take(length - 4)
    return cursor


def _call(cursor: Cursor) -> Call:
    length = cursor.number(2)
    if length == _NAME_IS_NUMBER:
        number = cursor.number(2)
        name = PROCEDURES.get(number, f"procedure {number}")
    else:
        name = cursor.take(2 * length).decode("utf-16-le")
    cursor.number(2)  # options: recompile, no metadata, reuse metadata
    parameters = []
    while not cursor.exhausted and cursor.peek() not in _BATCH_SEPARATORS:
        parameters.append(parameter(cursor))
    if not cursor.exhausted:
        cursor.number(1)
    return Call(name, tuple(parameters))
