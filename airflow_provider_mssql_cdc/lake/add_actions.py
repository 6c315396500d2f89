"""Build add actions with exact statistics from staged files."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.arrow_types import naive_utc
from airflow_provider_mssql_cdc.errors import IncompletePlan, SchemaDrift
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import LakeTable
from airflow_provider_mssql_cdc.lake.schema import bronze_schema, same_type
from airflow_provider_mssql_cdc.lake.staged_files import is_of_snapshot
from airflow_provider_mssql_cdc.lake.staging import FILE_KEY
from airflow_provider_mssql_cdc.lake.storage import UNREADABLE, TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn

# String bounds may be cut to a prefix (Delta protocol, "Per-file Statistics"); readers skip by them, so a
# maximum that is cut has to be rounded up.
MAX_TEXT = 64
_LAST_BEFORE_SURROGATES, _FIRST_AFTER_SURROGATES = 0xD7FF, 0xE000
_LAST_CODE_POINT = 0x10FFFF


def delta_statistics(footer: pq.FileMetaData, columns: Sequence[str]) -> str:
    """Return ``{"numRecords", "minValues", "maxValues", "nullCount"}`` of a file, for ``columns`` only.

    A column with incomplete footer statistics is omitted.
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
    """Return the JSON text of a value not above ``value``; None for a type without bounds."""
    return _json_text(value[:MAX_TEXT] if isinstance(value, str) else value)


def upper_bound(value: Any) -> str | None:
    """Return the JSON text of a value not below ``value``; None if there is none."""
    if isinstance(value, str) and len(value) > MAX_TEXT:
        return _json_text(_rounded_up(value[:MAX_TEXT]))
    return _json_text(value)


def _rounded_up(text: str) -> str | None:
    """Return the smallest string of at most this length above every string that begins with ``text``.

    Strings compare by code point, which equals UTF-8's byte order; surrogates are not characters.
    """
    for end in range(len(text), 0, -1):
        point = ord(text[end - 1])
        if point < _LAST_CODE_POINT:
            following = _FIRST_AFTER_SURROGATES if point == _LAST_BEFORE_SURROGATES else point + 1
            return text[: end - 1] + chr(following)
    return None


def _bounds(told: Sequence[pq.Statistics]) -> tuple[Any, Any] | None:
    """Return minimum and maximum; None when a row group lacks them, or all values are NULL."""
    filled = [statistics for statistics in told if statistics.num_values > 0]
    if not filled or not all(statistics.has_min_max for statistics in filled):
        return None
    smallest = [statistics.min for statistics in filled]
    if not _is_ordered(smallest[0]):
        return None
    return min(smallest), max(statistics.max for statistics in filled)


def _is_ordered(value: Any) -> bool:
    """Strings, numbers, dates and times."""
    # Not floats: footers leave NaN out, and readers would skip files that hold it (delta-io/delta#7101). Not
    # booleans: delta-rs ignores their bounds (delta-io/delta-rs#4499).
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
    """Format a timestamp; ``isoformat`` pads years to four digits, which ``strftime`` does not."""
    zone = "Z" if value.tzinfo is not None else ""
    return naive_utc(value).isoformat(timespec="microseconds") + zone


def _put(values: dict[str, str], name: str, text: str | None) -> None:
    if text is not None:
        values[name] = text


def _object(members: dict[str, str]) -> str:
    """Return a JSON object of members that are already JSON."""
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


_THREADS = 16
_NAMED_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class _Problem:
    """Reason not to commit a file; ``drift`` if the file is intact but has other columns."""

    text: str
    drift: bool = False


def add_actions(
    bronze: Bronze, files: Sequence[StagedFile], *, snapshot: Lsn, columns: Sequence[LakeColumn]
) -> list[AddAction]:
    """Return one add action per file, after checking its existence, size, rows, schema, name and snapshot.

    :raises IncompletePlan: names files that are missing, truncated, swapped or of another snapshot.
    :raises SchemaDrift: names files whose columns are not bronze's.
    """
    storage = TableStorage(bronze.location)
    expected = bronze_schema(columns)
    statistics_columns = bronze.statistics_columns
    staged_at = int(time.time() * 1000)

    def check(file: StagedFile) -> AddAction | _Problem:
        footer = _sound_footer(storage, file, snapshot=snapshot, expected=expected)
        if isinstance(footer, _Problem):
            return footer
        return _action(file, footer, staged_at=staged_at, statistics_columns=statistics_columns)

    _refuse_doubled(files)
    with ThreadPoolExecutor(_THREADS, "footers") as pool:
        checked = list(pool.map(check, files))
    _refuse([outcome for outcome in checked if isinstance(outcome, _Problem)], where=str(bronze.location))
    return [outcome for outcome in checked if isinstance(outcome, AddAction)]


def actions_just_staged(
    table: LakeTable, files: Sequence[StagedFile], *, data_change: bool = True
) -> list[AddAction]:
    """Return one add action per file that this process has staged, checking each file once more.

    :param data_change: False when the rows were in the table before, in other files.
    :raises IncompletePlan: a file is missing or was modified.
    """
    storage, staged_at = TableStorage(table.location), int(time.time() * 1000)
    actions = []
    for file in files:
        footer = _footer_if_whole(storage, file)
        if footer is None or footer.num_rows != file.rows:
            raise IncompletePlan(
                f"{table.location}: {file.path} is not as it was staged; another process cleans the "
                "table's folder. Nothing was committed"
            )
        columns = table.statistics_columns
        action = _action(file, footer, staged_at=staged_at, statistics_columns=columns)
        actions.append(replace(action, data_change=data_change))
    return actions


def _footer_if_whole(storage: TableStorage, file: StagedFile) -> pq.FileMetaData | None:
    try:
        return storage.footer(file.path) if storage.size(file.path) == file.size else None
    except UNREADABLE:
        return None


def _action(
    file: StagedFile, footer: pq.FileMetaData, *, staged_at: int, statistics_columns: Sequence[str]
) -> AddAction:
    """Build the log entry of a file; its statistics come from its footer.

    :param staged_at: milliseconds since 1970.
    """
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values={},
        modification_time=staged_at,
        data_change=True,
        stats=delta_statistics(footer, statistics_columns),
    )


def _sound_footer(
    storage: TableStorage, file: StagedFile, *, snapshot: Lsn, expected: pa.Schema
) -> pq.FileMetaData | _Problem:
    if not is_of_snapshot(file.path, snapshot):
        return _Problem(f"{file.path!r} must be a file of snapshot {snapshot}")
    try:
        size = storage.size(file.path)
        if size is None:
            return _Problem(f"{file.path} is missing")
        if size != file.size:
            return _Problem(f"{file.path} has {size} bytes, {file.size} were staged")
        footer = storage.footer(file.path)
    except UNREADABLE as exc:
        return _Problem(f"{file.path} cannot be read ({exc})")
    if footer.num_rows != file.rows:
        return _Problem(f"{file.path} has {footer.num_rows} rows, {file.rows} were staged")
    if (footer.metadata or {}).get(FILE_KEY) != file.path.encode():
        return _Problem(f"{file.path} holds another file's content")
    difference = _schema_difference(footer.schema.to_arrow_schema(), expected)
    return _Problem(f"{file.path}: {difference}", drift=True) if difference else footer


def _schema_difference(found: pa.Schema, expected: pa.Schema) -> str:
    if found.names != expected.names:
        odd = sorted(set(found.names) ^ set(expected.names))
        return f"columns differ: {', '.join(odd) or 'another order'}"
    wrong = [
        f"{have.name} is {have.type}, bronze has {want.type}"
        for have, want in zip(found, expected, strict=True)
        if not same_type(have.type, want.type)
    ]
    return "; ".join(wrong)


def _refuse_doubled(files: Sequence[StagedFile]) -> None:
    doubled = [path for path, count in Counter(file.path for file in files).items() if count > 1]
    if doubled:
        raise IncompletePlan(
            f"staged files must be named once, named twice: {', '.join(doubled[:_NAMED_PROBLEMS])}"
        )


def _refuse(problems: Sequence[_Problem], *, where: str) -> None:
    if not problems:
        return
    named = "; ".join(problem.text for problem in problems[:_NAMED_PROBLEMS])
    more = f" and {len(problems) - _NAMED_PROBLEMS} more" if len(problems) > _NAMED_PROBLEMS else ""
    kind = SchemaDrift if all(problem.drift for problem in problems) else IncompletePlan
    raise kind(
        f"{where}: {len(problems)} staged file(s) are not what was staged: {named}{more}. Nothing was "
        "committed. Clear the tasks that staged them, with downstream; they read their ranges again"
    )
