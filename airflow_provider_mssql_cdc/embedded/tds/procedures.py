"""Procedures and transaction requests that drivers send (section 2.2.6.9)."""

from __future__ import annotations

import functools
import itertools
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from airflow_provider_mssql_cdc.embedded.seam import (
    EngineSession,
    Message,
    Parameter,
    ResultColumn,
    ResultSet,
    Row,
    RowCount,
    SqlError,
    SqlType,
)
from airflow_provider_mssql_cdc.embedded.tds import requests, tokens
from airflow_provider_mssql_cdc.embedded.tds.requests import Call

NO_TRANSACTION_TO_ROLL_BACK = 3903


class Transactions:
    """The transactions of one connection; each has a descriptor of eight bytes."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        self._numbers = itertools.count(1)
        self._descriptor = b""

    def handle(self, request: requests.TransactionRequest, write: Callable[[bytes], None]) -> None:
        """Do what is asked; ``write`` gets the ENVCHANGE tokens."""
        if request.kind != requests.BEGIN:
            self._end(request.kind, write)
        if request.kind == requests.BEGIN or request.begins_next:
            self._begin(request.isolation, write)

    def _begin(self, isolation: str | None, write: Callable[[bytes], None]) -> None:
        if isolation:
            for _ in self._session.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}"):
                pass
        self._session.begin()
        self._descriptor = struct.pack("<Q", next(self._numbers))
        write(tokens.environment_bytes(tokens.BEGIN_TRANSACTION, self._descriptor))

    def _end(self, kind: int, write: Callable[[bytes], None]) -> None:
        change = tokens.COMMIT_TRANSACTION
        if kind == requests.COMMIT:
            self._session.commit()
        else:
            change = tokens.ROLLBACK_TRANSACTION
            self._roll_back()
        write(tokens.environment_bytes(change, old=self._descriptor))
        self._descriptor = b""

    def _roll_back(self) -> None:
        """A transaction that the server itself has rolled back, as for a deadlock, may be asked for again."""
        try:
            self._session.rollback()
        except SqlError as error:
            if error.number != NO_TRANSACTION_TO_ROLL_BACK:
                raise


Items = Iterator[ResultSet | RowCount | Message]
Runner = Callable[[Items], None]
Prepared = Callable[[Sequence[Parameter]], Items]

_DECLARED = re.compile(r"@[\w@#$]+")
_SYSNAME, _INT, _BIT = SqlType("nvarchar", 256), SqlType("int"), SqlType("bit")

# The columns of sp_describe_undeclared_parameters, each with its value for an nvarchar(4000).
_UNDECLARED: tuple[tuple[str, SqlType, object], ...] = (
    ("suggested_system_type_id", _INT, 231),
    ("suggested_system_type_name", SqlType("nvarchar", 512), "nvarchar(4000)"),
    ("suggested_max_length", SqlType("smallint"), 8000),
    ("suggested_precision", SqlType("tinyint"), 0),
    ("suggested_scale", SqlType("tinyint"), 0),
    ("suggested_user_type_id", _INT, None),
    ("suggested_user_type_database", _SYSNAME, None),
    ("suggested_user_type_schema", _SYSNAME, None),
    ("suggested_user_type_name", _SYSNAME, None),
    ("suggested_assembly_qualified_type_name", SqlType("nvarchar", 8000), None),
    ("suggested_xml_collection_id", _INT, None),
    ("suggested_xml_collection_database", _SYSNAME, None),
    ("suggested_xml_collection_schema", _SYSNAME, None),
    ("suggested_xml_collection_name", _SYSNAME, None),
    ("suggested_is_xml_document", _BIT, 0),
    ("suggested_is_case_sensitive", _BIT, 0),
    ("suggested_is_fixed_length_clr_type", _BIT, 0),
    ("suggested_is_input", _BIT, 1),
    ("suggested_is_output", _BIT, 0),
    ("formal_parameter_name", _SYSNAME, None),
    ("suggested_tds_type_id", _INT, 231),
    ("suggested_tds_length", _INT, 8000),
)


class Procedures:
    """Runs the calls of one connection and keeps its prepared statements."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        self._handles = itertools.count(1)
        self._prepared: dict[int, Prepared] = {}
        self._known: dict[str, Callable[[Sequence[Parameter], Runner], list[bytes]]] = {
            "sp_executesql": self._executesql,
            "sp_prepexec": self._prepexec,
            "sp_prepexecrpc": self._prepexecrpc,
            "sp_prepare": self._prepare,
            "sp_execute": self._execute,
            "sp_unprepare": self._unprepare,
            "sp_reset_connection": self._reset,
            "sp_describe_undeclared_parameters": self._describe,
        }

    def run(self, call: Call, runner: Runner) -> list[bytes]:
        """Run one call; ``runner`` writes what its statements give. Returns the RETURNVALUE tokens."""
        known = self._known.get(call.procedure.lower().removeprefix("sys."))
        if known is not None:
            return known(call.parameters, runner)
        runner(self._session.call(call.procedure, call.parameters))
        return []

    def _executesql(self, parameters: Sequence[Parameter], runner: Runner) -> list[bytes]:
        declaration = _text(parameters, 1) if len(parameters) > 1 else ""
        runner(self._statement(_text(parameters, 0), declaration)(parameters[2:]))
        return []

    def _prepare(self, parameters: Sequence[Parameter], _: Runner) -> list[bytes]:
        return [self._keep(parameters, self._statement(_text(parameters, 2), _text(parameters, 1)))]

    def _prepexec(self, parameters: Sequence[Parameter], runner: Runner) -> list[bytes]:
        prepared = self._statement(_text(parameters, 2), _text(parameters, 1))
        runner(prepared(parameters[3:]))
        return [self._keep(parameters, prepared)]

    def _prepexecrpc(self, parameters: Sequence[Parameter], runner: Runner) -> list[bytes]:
        """What ODBC makes of ``{CALL procedure(?, ?)}``."""
        prepared = functools.partial(self._session.call, _text(parameters, 1))
        runner(prepared(parameters[2:]))
        return [self._keep(parameters, prepared)]

    def _execute(self, parameters: Sequence[Parameter], runner: Runner) -> list[bytes]:
        handle = _handle(parameters)
        if handle not in self._prepared:
            raise SqlError(8179, f"Could not find prepared statement with handle {handle}.")
        runner(self._prepared[handle](parameters[1:]))
        return []

    def _unprepare(self, parameters: Sequence[Parameter], _: Runner) -> list[bytes]:
        self._prepared.pop(_handle(parameters), None)
        return []

    def _reset(self, _: Sequence[Parameter], __: Runner) -> list[bytes]:
        self._session.reset()
        return []

    def _describe(self, parameters: Sequence[Parameter], runner: Runner) -> list[bytes]:
        statement = _text(parameters, 0)
        declaration = _text(parameters, 1) if len(parameters) > 1 else ""
        runner(iter([undeclared_parameters(statement, declaration)]))
        return []

    def _statement(self, statement: str, declaration: str) -> Prepared:
        return lambda parameters: self._session.execute(statement, named(declaration, parameters))

    def _keep(self, parameters: Sequence[Parameter], prepared: Prepared) -> bytes:
        """Give a prepared statement a handle, in place of the one that came in; the RETURNVALUE token."""
        self._prepared.pop(_handle(parameters), None)
        handle = next(self._handles)
        self._prepared[handle] = prepared
        return tokens.return_integer(0, parameters[0].name, handle)


def named(declaration: str, parameters: Sequence[Parameter]) -> list[Parameter]:
    """Give parameters that came by position the names of their declaration, ``@P1 int, @P2 date``."""
    names = _DECLARED.findall(declaration)
    if len(parameters) > len(names):
        raise SqlError(8144, f"{len(parameters)} parameters were passed, {len(names)} are declared.")
    return [p if p.name else replace(p, name=name) for p, name in zip(parameters, names, strict=False)]


def undeclared_parameters(statement: str, declaration: str) -> ResultSet:
    """Suggest nvarchar(4000) for each: drivers ask about NULLs only, and a NULL converts to any type."""
    declared = set(_DECLARED.findall(declaration))
    names = [n for n in dict.fromkeys(re.findall(r"(?<![@\w])@\w+", statement)) if n not in declared]
    columns = [ResultColumn("parameter_ordinal", _INT, nullable=False), ResultColumn("name", _SYSNAME)]
    columns += [ResultColumn(name, sql_type, nullable=value is None) for name, sql_type, value in _UNDECLARED]
    values = tuple(value for _, _, value in _UNDECLARED)
    rows: list[Row] = [(at, name, *values) for at, name in enumerate(names, start=1)]
    return ResultSet(tuple(columns), iter([rows]))


def _text(parameters: Sequence[Parameter], at: int) -> str:
    if at >= len(parameters):
        raise SqlError(201, f"The procedure expects parameter {at + 1}, which was not supplied.")
    value = parameters[at].value
    return "" if value is None else str(value)


def _handle(parameters: Sequence[Parameter]) -> int:
    if not parameters or parameters[0].value is None:
        return 0
    return int(parameters[0].value)
