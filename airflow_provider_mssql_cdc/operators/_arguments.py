"""Checks of operator arguments, each returning what is wrong or None."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off", "", "none"})
_LSN_BYTES = 10
_JINJA = re.compile(r"{{|{%")


def at_least(least: int) -> Callable[[Any], str | None]:
    """A whole number with a lower end."""

    def check(value: Any) -> str | None:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if good else f"is a whole number of at least {least}, got {value!r}"

    return check


def or_none(check: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """The same, and None, which leaves it out."""
    return lambda value: None if value is None else check(value)


def not_negative(value: Any) -> str | None:
    """A number, zero or more."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return None if good else f"is a number of at least 0, got {value!r}"


def one_of(*choices: str | None) -> Callable[[Any], str | None]:
    """One of a few words, or a template of one; None where it is among them."""

    def check(value: Any) -> str | None:
        if value in choices or (isinstance(value, str) and _JINJA.search(value)):
            return None
        return f"is one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def word_of(*choices: str) -> Callable[[Any], str | None]:
    """One of a few words, known when the DAG is parsed."""

    def check(value: Any) -> str | None:
        return None if value in choices else f"is one of {', '.join(map(repr, choices))}, got {value!r}"

    return check


def is_known_later(value: Any) -> bool:
    """A template, or the output of another task, or holding one: rendered per run, and checked then."""
    if isinstance(value, Mapping):
        return any(map(is_known_later, value.values()))
    return hasattr(value, "resolve") or (isinstance(value, str) and bool(_JINJA.search(value)))


def as_lsn(value: Any) -> Any:
    """An LSN that native rendering has made a number or bytes of, as text again; anything else as it is."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 80:
        return Lsn(value).text
    if isinstance(value, bytes | bytearray) and len(value) == _LSN_BYTES and any(value):
        return Lsn(int.from_bytes(value, "big")).text
    return value


def lsn(value: Any) -> str | None:
    """An LSN, or a template of one."""
    if is_known_later(value):
        return None
    try:
        Lsn.parse(as_lsn(value))
    except ValueError as exc:
        return f"cannot be read: {exc}"
    return None


def flag(value: Any) -> str | None:
    """True or False."""
    return None if isinstance(value, bool) else f"is True or False, got {value!r}"


def text(value: Any) -> str | None:
    """A text that is not empty."""
    good = isinstance(value, str) and bool(value.strip())
    return None if good else f"is a text that is not empty, got {value!r}"


def flag_or_template(value: Any) -> str | None:
    """True, False, or a template that renders to one of them."""
    if isinstance(value, str) and _JINJA.search(value):
        return None
    try:
        as_flag(value, name="it")
    except ConfigurationError:
        return f"is true or false, or a template of it, got {value!r}"
    return None


def as_flag(value: Any, *, name: str) -> bool:
    """Read a flag that may have gone through templating: the text 'False' is false.

    :raises ConfigurationError: anything that is neither.
    """
    if isinstance(value, bool):
        return value
    if value is None:
        return False
    if isinstance(value, str) and (text := value.strip().lower()) in _TRUE | _FALSE:
        return text in _TRUE
    raise ConfigurationError(f"{name} is true or false, got {value!r}")
