"""Read a tile of the source again, or the source rows of some of silver's keys, for a comparison."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.arrow_types import captured_schema
from airflow_provider_mssql_cdc.errors import ConfigurationError, ReplicaBehind, UnsupportedKey
from airflow_provider_mssql_cdc.jobs.plan_reconcile import ReconcileOrder, keyed
from airflow_provider_mssql_cdc.jobs.read_range import rows_of_range
from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, loadable_table
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.reconcile import (
    ReconcileTable,
    as_rows,
    columns_of,
    columns_without_history,
    key_schema,
    keys_where,
)
from airflow_provider_mssql_cdc.lake.silver.snapshot import snapshot_files
from airflow_provider_mssql_cdc.lake.silver.table import Silver
from airflow_provider_mssql_cdc.model.key_range import Bound, KeyRange
from airflow_provider_mssql_cdc.model.reconcile import ReadRows, ReconcileItem
from airflow_provider_mssql_cdc.model.source_table import PlannedColumn
from airflow_provider_mssql_cdc.source.watermarks import horizon, now
from airflow_provider_mssql_cdc.tsql.bounds import is_bindable, text_of_value
from airflow_provider_mssql_cdc.tsql.snapshot import select_keys

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect
    from airflow_provider_mssql_cdc.source.session import SourceSession

_KEYS_AT_ONCE = {"one column": 400, "several": 40}
"""Keys per statement: an IN list of parameters, or conditions joined by OR."""


def read_item(
    order: ReconcileOrder,
    item: ReconcileItem,
    reports: ReconcileTable,
    bronze: Bronze,
    silver: Silver,
    *,
    connect: Connect,
) -> ReadRows:
    assert silver.position is not None
    with connect() as session:
        source = keyed(loadable_table(session, order.table))
        bronze.check_identity(source.identity)
        bronze.check_object(source.identity)
        left_out = _left_out(order, source, bronze, silver)
        names = [name for name in silver.schema.names if name in _captured(source) and name not in left_out]
        schema = columns_of(silver, names)
        at = now(session, source.description.instance)
        if at < silver.position.snapshot:
            raise ReplicaBehind(
                f"{order.label}: the server that answers is at {at}, behind silver's snapshot "
                f"{silver.position.snapshot}. Trying again may reach one that has caught up"
            )
        asked = None
        if item.tile is None:
            keys = _sampled(silver, item)
            asked = reports.stage(key_schema(silver), as_rows(keys, key_schema(silver)).to_batches())
            looked_up = _looked_up(session, source, silver.key, keys, label=order.label)
            rows = reports.stage(schema, looked_up)
        else:
            rows = _staged_tile(order, item, reports, session, source, schema)
        after = horizon(session, source.description.instance)
    return ReadRows(at, after, rows, asked, left_out=left_out)


def _staged_tile(
    order: ReconcileOrder,
    item: ReconcileItem,
    reports: ReconcileTable,
    session: SourceSession,
    source: LoadableTable,
    schema: Any,
) -> str:
    cycle = reports.cycle(item.cycle)
    assert item.tile is not None
    if cycle is None or item.tile >= len(cycle.tiles):
        raise ConfigurationError(
            f"{order.label}: cycle {item.cycle} has no tile {item.tile}; clear the plan task"
        )
    tile: KeyRange = cycle.tiles[item.tile]
    label = f"{source.description.table.label}, {item.label} of {len(cycle.tiles)}"
    with rows_of_range(session, source, tile, label=label) as batches:
        return reports.stage(schema, batches)


def _captured(source: LoadableTable) -> set[str]:
    return {column.name for column in source.lake_columns}


def _left_out(order: ReconcileOrder, source: LoadableTable, bronze: Bronze, silver: Silver) -> dict[str, str]:
    """Return the columns of silver that are not compared, and why.

    :raises ConfigurationError: ``columns`` names a column that silver does not have.
    """
    captured = [name for name in silver.schema.names if name not in ("_start_lsn", "_commit_ts")]
    others = [name for name in captured if name not in silver.key]
    if unknown := sorted(set(order.columns or ()) - set(captured)):
        raise ConfigurationError(
            f"{order.label}: columns must name columns of silver ({', '.join(captured)}), got "
            f"{', '.join(unknown)}"
        )
    read = _captured(source)
    masked = {column.lake.name for column in source.columns if column.source.masked}
    assert silver.position is not None
    files = snapshot_files(bronze, silver.position.snapshot)
    without = set(columns_without_history(bronze, files, others))
    reasons = {
        name: reason
        for name in others
        if (
            reason := (order.counts_only and "only keys are counted")
            or (order.columns is not None and name not in order.columns and "columns= does not name it")
            or (name not in read and "the capture instance does not record it")
            or (name in masked and "this login reads a mask")
            or (name in without and "it was added after the snapshot, with NULL in the rows until then")
        )
    }
    if missing := [name for name in silver.key if name not in read]:
        raise UnsupportedKey(
            f"{order.label}: silver's key column(s) {', '.join(missing)} must be among the columns that the "
            "capture instance records"
        )
    return {name: str(reason) for name, reason in reasons.items()}


# -- keys of silver, looked up in the source


def _sampled(silver: Silver, item: ReconcileItem) -> list[tuple[Any, ...]]:
    """Return the keys whose stable hash falls into the item's bucket."""
    return list(keys_where(silver, lambda key: zlib.crc32(repr(key).encode()) % item.buckets == item.bucket))


def _looked_up(
    session: SourceSession,
    source: LoadableTable,
    names: Sequence[str],
    keys: Sequence[tuple[Any, ...]],
    *,
    label: str,
) -> Iterator[Any]:
    """Read the source rows of these keys, a few keys per statement.

    :param names: silver's key columns, in the order of the values in ``keys``.

    :raises UnsupportedKey: a key column is read through the user's cast, or its values have no exact text.
    """
    columns = {column.lake.name: column for column in source.columns}
    key = [columns[name] for name in names]
    if unusable := [column.source.name for column in key if not _is_plain(source, column)]:
        raise UnsupportedKey(
            f"{label}: keys cannot be looked up by {', '.join(unusable)}, which a cast converts or whose "
            "values have no exact text. Tiles prove such a table: leave the keys out with sample_keys=False"
        )
    sources = [column.source for column in key]
    at_once = _KEYS_AT_ONCE["one column" if len(key) == 1 else "several"]
    for start in range(0, len(keys), at_once):
        bounds: list[Bound] = [
            tuple(text_of_value(column.sql_type, value) for column, value in zip(sources, one, strict=True))
            for one in keys[start : start + at_once]
        ]
        statement = select_keys(source.description.table, source.columns, sources, bounds)
        yield from session.read(statement, captured_schema(source.lake_columns), table=label)


def _is_plain(source: LoadableTable, column: PlannedColumn) -> bool:
    return column.source.name not in source.casts and is_bindable(column.source.sql_type)
