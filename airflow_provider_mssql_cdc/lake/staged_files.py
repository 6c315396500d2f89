"""Staged files, looked at one by one before a commit names them.

delta-rs checks nothing of what an add action claims: a file that is missing, cut or of another schema
is committed without a word, and readers fail, or read something else, ever after.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.errors import IncompletePlan, SchemaDrift
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.lake.parquet_files import FILE_KEY
from airflow_provider_mssql_cdc.lake.schema import bronze_schema, same_type
from airflow_provider_mssql_cdc.lake.statistics import delta_statistics
from airflow_provider_mssql_cdc.lake.storage import UNREADABLE, TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.planned_column import LakeColumn
from airflow_provider_mssql_cdc.model.staged import StagedFile

_THREADS = 16
_NAMED_PROBLEMS = 10
_PLAIN_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]*\.parquet\Z")


@dataclass(frozen=True, slots=True)
class _Problem:
    """Why a file is not committed; ``drift`` when it is whole and has other columns."""

    text: str
    drift: bool = False


def add_actions(
    bronze: Bronze, files: Sequence[StagedFile], *, snapshot: Lsn, columns: Sequence[LakeColumn]
) -> list[AddAction]:
    """One add action per file, each file checked: there, its size, rows, schema, name and snapshot.

    :raises IncompletePlan: naming files that are missing, cut, swapped or of another snapshot.
    :raises SchemaDrift: naming files whose columns are not bronze's.
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


class HoldsFiles(Protocol):
    """Bronze or silver, as far as a commit of files needs it."""

    @property
    def location(self) -> TableLocation: ...

    @property
    def statistics_columns(self) -> tuple[str, ...]:
        """Columns that files carry minimum and maximum for."""
        ...


def actions_just_staged(table: HoldsFiles, files: Sequence[StagedFile]) -> list[AddAction]:
    """One add action per file that this very process has staged, each looked at once more.

    :raises IncompletePlan: a file is not there or not as it was written.
    """
    storage, staged_at = TableStorage(table.location), int(time.time() * 1000)
    actions = []
    for file in files:
        footer = _footer_if_whole(storage, file)
        if footer is None or footer.num_rows != file.rows:
            raise IncompletePlan(
                f"{table.location}: {file.path} is not what was staged a moment ago; somebody cleans the "
                "table's folder. Nothing was committed"
            )
        columns = table.statistics_columns
        actions.append(_action(file, footer, staged_at=staged_at, statistics_columns=columns))
    return actions


def _footer_if_whole(storage: TableStorage, file: StagedFile) -> pq.FileMetaData | None:
    try:
        return storage.footer(file.path) if storage.size(file.path) == file.size else None
    except UNREADABLE:
        return None


def _action(
    file: StagedFile, footer: pq.FileMetaData, *, staged_at: int, statistics_columns: Sequence[str]
) -> AddAction:
    """What the log says of a file; its statistics come from its footer.

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
    if not _PLAIN_NAME.match(file.path) or not file.path.startswith(f"{snapshot.text}-"):
        return _Problem(f"{file.path!r} is no file of snapshot {snapshot}")
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
        raise IncompletePlan(f"staged files are named twice: {', '.join(doubled[:_NAMED_PROBLEMS])}")


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
