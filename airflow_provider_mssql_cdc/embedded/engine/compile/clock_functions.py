"""Built-in functions on dates and times; time zones under Windows' names (CLDR windowsZones)."""

from __future__ import annotations

import time
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.compile import functions
from airflow_provider_mssql_cdc.embedded.engine.compile.context import Scope, Typed
from airflow_provider_mssql_cdc.embedded.engine.parser import tree
from airflow_provider_mssql_cdc.embedded.engine.values import moments, types
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_mssql_cdc.embedded.engine.compile.context import Compiler
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


_ZONES = """UTC=UTC; Alaskan Standard Time=America/Anchorage; Arabian Standard Time=Asia/Dubai;
    Atlantic Standard Time=America/Halifax; AUS Eastern Standard Time=Australia/Sydney;
    Central European Standard Time=Europe/Warsaw; Central Standard Time=America/Chicago;
    China Standard Time=Asia/Shanghai; E. South America Standard Time=America/Sao_Paulo;
    Eastern Standard Time=America/New_York; FLE Standard Time=Europe/Kyiv;
    GMT Standard Time=Europe/London; GTB Standard Time=Europe/Athens;
    Hawaiian Standard Time=Pacific/Honolulu; India Standard Time=Asia/Kolkata;
    Lord Howe Standard Time=Australia/Lord_Howe; Mountain Standard Time=America/Denver;
    Nepal Standard Time=Asia/Kathmandu; New Zealand Standard Time=Pacific/Auckland;
    Newfoundland Standard Time=America/St_Johns; Pacific Standard Time=America/Los_Angeles;
    Romance Standard Time=Europe/Paris; Russian Standard Time=Europe/Moscow;
    Singapore Standard Time=Asia/Singapore; Tokyo Standard Time=Asia/Tokyo;
    W. Europe Standard Time=Europe/Berlin"""
_IANA = {windows.strip(): iana for windows, iana in (zone.split("=") for zone in _ZONES.split(";"))}
_WINDOWS = {iana: windows for windows, iana in _IANA.items()}
_FOLDED = {windows.lower(): iana for windows, iana in _IANA.items()}


def windows_name(iana: str) -> str:
    """What CURRENT_TIMEZONE_ID() says for a zone; the IANA name itself for one that is not in the table."""
    return _WINDOWS.get(iana, iana)


def zone(name: str) -> tzinfo:
    """A zone by Windows' or IANA's name. Error 9820."""
    found = _FOLDED.get(name.lower(), name)
    if found == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(found)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise SqlError(
            9820, f"The time zone parameter '{name}' provided to AT TIME ZONE clause is invalid."
        ) from None


def at_zone(moment: moments.Moment, name: str) -> moments.Moment:
    """AT TIME ZONE: gives a local time its offset, or shows an instant in another zone.

    An hour that repeats has the offset before the change; one that is left out is moved past it.
    """
    if moment.offset is None:
        local = datetime.min.replace(tzinfo=zone(name)) + timedelta(microseconds=moment.units // 10)
        utc = moment.units - _offset(local) * moments.MINUTE
    else:
        utc = moment.utc
    instant = datetime.min.replace(tzinfo=UTC) + timedelta(microseconds=utc // 10)
    offset = _offset(instant.astimezone(zone(name)))
    return moments.Moment(utc + offset * moments.MINUTE, offset)


def _offset(moment: datetime) -> int:
    return (moment.utcoffset() or timedelta()) // timedelta(minutes=1)


_EPOCH_UNITS = 719_162 * moments.DAY
DATETIME2 = SqlType("datetime2", scale=7)
DATETIMEOFFSET = SqlType("datetimeoffset", scale=7)


def now_units() -> int:
    """The clock in UTC, units of 100 ns since 0001-01-01."""
    return _EPOCH_UNITS + time.time_ns() // 100


def _clock(type_: SqlType, *, local: bool) -> Callable[..., Typed]:
    """A clock that stands still within a statement, as SQL Server's do."""

    def read(session: Session) -> Any:
        units = session.statement_clock()
        offset = session.engine.utc_offset_minutes(units)
        moment = moments.Moment(units + (offset * moments.MINUTE if local else 0), offset if local else None)
        return moments.store(moment, type_)

    def handler(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
        return Typed(compiler.bind(read), type_, False, True)

    return handler


def _part_argument(node: tree.Call) -> str:
    first = node.arguments[0] if node.arguments else None
    if not isinstance(first, tree.ColumnName) or len(first.parts) != 1:
        raise SqlError(1023, f"Invalid parameter 1 specified for {node.name[-1].lower()}.", 15)
    return moments.part_name(first.parts[0])


def _rest(node: tree.Call) -> tree.Call:
    return tree.Call(node.name, node.arguments[1:])


def _moment(compiler: Compiler, value: Typed) -> Typed:
    if types.family(value.known) == "moment":
        return value
    return compiler.cast(value, types.DATETIME if types.family(value.known) == "integer" else DATETIME2)


def _dateadd(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    part = _part_argument(node)
    amount, value = functions.arguments(compiler, _rest(node), scope, least=2)
    if types.family(value.known) != "moment":
        value = compiler.cast(value, types.DATETIME)
    loader, type_ = moments.LOADERS[value.known.name], value.known

    def shift(count: int, stored: Any) -> Any:
        return moments.store(moments.add(part, count, loader(stored)), type_)

    number = compiler.cast(amount, types.INT)
    return functions.python(compiler, ("dateadd", part, type_), shift, [number, value], returns=type_)


def _datediff(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    part = _part_argument(node)
    start, end = (_moment(compiler, v) for v in functions.arguments(compiler, _rest(node), scope, least=2))
    loaders = moments.LOADERS[start.known.name], moments.LOADERS[end.known.name]

    def count(first: Any, last: Any) -> int:
        number = moments.difference(part, loaders[0](first), loaders[1](last))
        if not -(2**31) <= number < 2**31:
            raise SqlError(535, "The datediff function resulted in an overflow.")
        return number

    return functions.python(
        compiler, ("datediff", part, start.known, end.known), count, [start, end], returns=types.INT
    )


def _datepart(compiler: Compiler, node: tree.Call, scope: Scope | None) -> Typed:
    """The offset of a moment, which is all that the embedded server is asked for. Error 155."""
    if moments.part_name(_part_argument(node)) != "tzoffset":
        raise SqlError(155, f"The embedded server knows no {_part_argument(node)} in DATEPART.", 15)
    (value,) = (_moment(compiler, v) for v in functions.arguments(compiler, _rest(node), scope, least=1))
    loader = moments.LOADERS[value.known.name]
    key = ("tzoffset", value.known.name)
    return functions.python(compiler, key, lambda v: loader(v).offset or 0, [value], returns=types.INT)


HANDLERS: dict[str, Callable[..., Typed]] = {
    "dateadd": _dateadd,
    "datediff": _datediff,
    "datepart": _datepart,
    "getdate": _clock(types.DATETIME, local=True),
    "getutcdate": _clock(types.DATETIME, local=False),
    "sysdatetime": _clock(DATETIME2, local=True),
    "sysdatetimeoffset": _clock(DATETIMEOFFSET, local=True),
    "sysutcdatetime": _clock(DATETIME2, local=False),
}
