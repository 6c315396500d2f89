"""The one place where a driver's error becomes one of this package's: number or SQLSTATE → class.

A driver's text may quote a value of the source (error 245 does) or, through a literal, a parameter, so
quoted parts are blotted out unless the error is one that quotes names only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from airflow_provider_mssql_cdc.errors import MssqlCdcError
from airflow_provider_mssql_cdc.source.error_table import BY_NUMBER, RULES, UNKNOWN, Rule


@dataclass(frozen=True, slots=True)
class Reported:
    """What a driver said: the server's error number, the SQLSTATE and the text, as far as it told."""

    number: int | None = None
    sqlstate: str | None = None
    text: str = ""


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\(<[^>]*>\)|(?<=value is )\(.*\)", re.DOTALL)
_VENDOR_PREFIX = re.compile(r"\A(?:\[[^\]]*\])+")
_DB_LIB = re.compile(r"DB-Lib error message (\d+), severity \d+:\n(.*)")
_GENERAL = 20018  # "General SQL Server error: Check messages from the SQL Server"


def translate(exc: BaseException, *, doing: str, connected: bool = True) -> MssqlCdcError:
    """The error to raise in place of a driver's; raise it ``from`` nothing that shows a statement.

    :param doing: what was being done and where, for instance ``erp (db:1433/shop): reading dbo.orders``.
    :param connected: whether there was a connection; before that nothing can have been read.
    """
    if isinstance(exc, MssqlCdcError):
        return exc
    reported = max(reports_of(exc), key=lambda report: report.number in BY_NUMBER)
    rule = rule_for(reported)
    remedy = rule.remedy if connected else rule.not_connected or rule.remedy
    return rule.error(f"{doing}: {_said(reported, rule)}. {remedy}")


def rule_for(reported: Reported) -> Rule:
    """Number first; where a driver keeps it to itself, the text; at last the SQLSTATE's class."""
    if reported.number in BY_NUMBER:
        return BY_NUMBER[reported.number]
    for rule in RULES:
        if rule.matches_text(reported.text):
            return rule
    for rule in RULES:
        if reported.sqlstate and reported.sqlstate.startswith(rule.sqlstates or ("-",)):
            return rule
    return UNKNOWN


def reports_of(exc: BaseException) -> Iterator[Reported]:
    """Everything that either driver told about an error, the server's word first."""
    diagnostics = getattr(exc, "diagnostics", None)
    if diagnostics:
        for head, text in diagnostics:
            yield _from_diagnostic(head, text)
    elif exc.args and isinstance(exc.args[0], tuple):
        yield from _from_db_lib(*exc.args[0][:2])
    elif len(exc.args) == 2 and isinstance(exc.args[0], int):
        yield from _from_db_lib(*exc.args)
    elif said := getattr(exc, "ddbc_error", None):
        yield Reported(None, _sqlstate(exc), _plain(str(said)))
    else:
        yield Reported(None, _sqlstate(exc), str(exc))


def _sqlstate(exc: BaseException) -> str | None:
    """Of a failed connect the driver hides it in another exception; of a statement, the reader notes it."""
    hidden = re.match(r"SQLSTATE:(\w{5}):", str(exc.__context__ or ""))
    noted: str | None = getattr(exc, "sqlstate", None)
    return hidden[1] if hidden else noted


def _from_diagnostic(head: str, text: str) -> Reported:
    """One ODBC diagnostic record: ``[42000] (1205)`` and its text."""
    match = re.match(r"\[(\w{5})\] \((-?\d+)\)", head)
    number = int(match[2]) if match else 0
    return Reported(number or None, match[1] if match else None, _plain(text))


def _from_db_lib(number: int, message: bytes | str) -> Iterator[Reported]:
    """The server's text, then db-lib's own words.

    pymssql loses the server's text at the second failed connect of a process, and may then hand over the
    number of an earlier one: it counts only where db-lib points at the server's messages.
    """
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    server_text = _DB_LIB.split(text)[0].strip()
    own = [(int(own_number), own_text.strip()) for own_number, own_text in _DB_LIB.findall(text)]
    if server_text or not own or any(own_number == _GENERAL for own_number, _ in own):
        yield Reported(number, None, server_text or "the server refused it")
    for own_number, own_text in own:
        if own_number != _GENERAL:
            yield Reported(own_number, None, own_text)


def _plain(text: str) -> str:
    return _VENDOR_PREFIX.sub("", text).strip()


def _said(reported: Reported, rule: Rule) -> str:
    code = f"error {reported.number}" if reported.number else f"SQLSTATE {reported.sqlstate}"
    text = " ".join(reported.text.split()).rstrip(".")
    if not rule.names_only:
        text = _QUOTED.sub("'…'", text)
    if reported.number is None and reported.sqlstate is None:
        return text or "the driver gave no reason"
    return f"{text} ({code})"
