"""A bound as JSON that every database keeps: XCom may be a column of type jsonb, which refuses ``\\u0000``.

A text travels as it is. One with a NUL, or with half of a surrogate pair, travels as
``{"utf8": "<hex digits>"}``.
"""

from __future__ import annotations

import re
from typing import Any

from airflow_provider_mssql_cdc.model.key_range import Bound

_UNSAFE = re.compile("[\0\ud800-\udfff]")


def bound_to_json(bound: Bound) -> list[Any]:
    """One JSON value per split column."""
    return [_to_json(value) for value in bound]


def bound_from_json(values: object) -> Bound | None:
    """What :func:`bound_to_json` wrote; None stays None.

    :raises ValueError: anything else.
    """
    if values is None:
        return None
    if not isinstance(values, (list, tuple)):
        raise ValueError("a bound is a list of texts")
    return tuple(_from_json(value) for value in values)


def _to_json(value: str | None) -> Any:
    if value is not None and _UNSAFE.search(value):
        return {"utf8": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _from_json(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"utf8"} and isinstance(value["utf8"], str):
        return bytes.fromhex(value["utf8"]).decode("utf-8", "surrogatepass")
    raise ValueError("a bound holds texts and NULLs")
