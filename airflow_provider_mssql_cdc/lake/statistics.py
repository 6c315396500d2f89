"""From Parquet footers to Delta statistics, exact or not at all.

Delta's statistics are JSON. A decimal is written as a number with all its digits and never passes
through a float; a timestamp has six digits; a text is cut to 64 characters, its upper bound rounded up.
A file whose minimum or maximum is wrong is skipped by readers that look for the rows in it, and JSON
that does not parse makes the whole table unreadable.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow.parquet as pq

from airflow_provider_mssql_cdc.lake.times import naive_utc

MAX_TEXT = 64
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CODE_POINT = 0x10FFFF


def delta_statistics(footer: pq.FileMetaData, columns: Sequence[str]) -> str:
    """``{"numRecords", "minValues", "maxValues", "nullCount"}`` of a file, for ``columns`` alone.

    A column of which the footer does not tell enough is left out.
    """
    positions = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    smallest: dict[str, str] = {}
    largest: dict[str, str] = {}
    nulls: dict[str, str] = {}
    for name in columns:
        if name not in positions:
            continue
        told = [group.column(positions[name]).statistics for group in groups]
        if not all(statistics is not None and statistics.has_null_count for statistics in told):
            continue
        nulls[name] = str(sum(statistics.null_count for statistics in told))
        if (bounds := _bounds(told)) is not None:
            _put(smallest, name, lower_bound(bounds[0]))
            _put(largest, name, upper_bound(bounds[1]))
    text = _object(
        {
            "numRecords": str(footer.num_rows),
            "minValues": _object(smallest),
            "maxValues": _object(largest),
            "nullCount": _object(nulls),
        }
    )
    json.loads(text)
    return text


def lower_bound(value: Any) -> str | None:
    """JSON text of a value that is not above ``value``; None for a type that has no bounds here."""
    return _json_text(value[:MAX_TEXT] if isinstance(value, str) else value)


def upper_bound(value: Any) -> str | None:
    """JSON text of a value that is not below ``value``; None where there is none."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return _json_text(_rounded_up(value[:MAX_TEXT]))
    return _json_text(value)


def _rounded_up(text: str) -> str | None:
    """The smallest text of at most this length above every text that begins with ``text``.

    Texts are compared by code point, which is UTF-8's order too; surrogates are no characters.
    """
    for end in range(len(text), 0, -1):
        point = ord(text[end - 1])
        if point < _LAST_CODE_POINT:
            following = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return text[: end - 1] + chr(following)
    return None


def _bounds(told: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Smallest and largest value; None when a row group does not tell, or all values are NULL."""
    filled = [statistics for statistics in told if statistics.num_values > 0]
    if not filled or not all(statistics.has_min_max for statistics in filled):
        return None
    smallest = [statistics.min for statistics in filled]
    if not _is_ordered(smallest[0]):
        return None
    return min(smallest), max(statistics.max for statistics in filled)


def _is_ordered(value: Any) -> bool:
    """Texts, numbers, dates and times; no truth values, bytes or floats (NaN, two zeros)."""
    return isinstance(value, str | int | Decimal | date) and not isinstance(value, bool)


_JSON: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, lambda value: json.dumps(value, ensure_ascii=False)),
    (int, str),
    (Decimal, lambda value: format(value, "f")),
    (datetime, lambda value: json.dumps(_timestamp(value))),  # before date, which it is as well
    (date, lambda value: json.dumps(value.isoformat())),
)


def _json_text(value: Any) -> str | None:
    for kind, render in _JSON:
        if isinstance(value, kind):
            return render(value)
    return None


def _timestamp(value: datetime) -> str:
    """``isoformat`` gives years four digits, which ``strftime`` does not."""
    zone = "Z" if value.tzinfo is not None else ""
    return naive_utc(value).isoformat(timespec="microseconds") + zone


def _put(values: dict[str, str], name: str, text: str | None) -> None:
    if text is not None:
        values[name] = text


def _object(members: dict[str, str]) -> str:
    """A JSON object of members that are JSON already."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"
