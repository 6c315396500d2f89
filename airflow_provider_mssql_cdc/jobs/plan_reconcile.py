"""Plan a reconcile: tiles of the source that have not been proven yet, and a part of silver's keys."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.jobs.source_table import LoadableTable, loadable_table
from airflow_provider_mssql_cdc.jobs.task import Skipped
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing
from airflow_provider_mssql_cdc.lake.reconcile import ReconcileTable
from airflow_provider_mssql_cdc.lake.silver.files import current_files
from airflow_provider_mssql_cdc.lake.silver.table import Silver, open_silver, refuse_foreign
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.model.reconcile import Cycle, ReconcileItem
from airflow_provider_mssql_cdc.source.measure import cut_ranges
from airflow_provider_mssql_cdc.source.watermarks import now
from airflow_provider_mssql_cdc.table import MssqlCdcTable
from airflow_provider_mssql_cdc.tsql.bounds import is_bindable

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.kept import Connect

log = logging.getLogger(__name__)

MAX_TILES = 100_000
SAMPLED_KEYS = 10_000
"""Keys of silver that one run looks up in the source at most."""


@dataclass(frozen=True, slots=True)
class ReconcileOrder:
    """What a reconcile is asked for.

    :param silver: path or URI of the Delta table to prove.
    :param share: of the tiles, and of silver's keys, that one run compares; above 0, at most 1.
    :param rows_per_tile: target rows per tile; the rows of one tile are in memory at once.
    :param columns: lake names of the columns to compare; None for all.
    :param counts_only: compare which keys there are, and no other column.
    :param show_keys: report keys that fail as they are; else as hashes.
    :param sample_keys: look some of silver's keys up in the source as well.
    :param max_items: tiles and samples of one run at most.
    """

    table: MssqlCdcTable
    silver: str
    attempt: Attempt
    share: float = 1 / 30
    rows_per_tile: int = 100_000
    columns: Sequence[str] | None = None
    counts_only: bool = False
    show_keys: bool = False
    sample_keys: bool = True
    max_items: int = 1000
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def label(self) -> str:
        return self.table.label


def plan_reconcile(order: ReconcileOrder, *, connect: Connect) -> list[ReconcileItem] | Skipped:
    """The tiles that this run compares, and a part of silver's keys; a new cycle is cut when one is over.

    :raises UnsupportedKey: the key does not identify a row.
    """
    opened = open_tables(order)
    if isinstance(opened, Skipped):
        return opened
    _, silver = opened
    reports = ReconcileTable(silver)
    if removed := reports.remove_leftovers():
        log.info("%s: removed %d file(s) with rows that tries of earlier runs left", order.label, removed)
    cycle = reports.cycle()
    if cycle is None or not cycle.open_tiles:
        cycle = _new_cycle(order, reports, connect=connect)
    wanted = min(math.ceil(order.share * len(cycle.tiles)), max(1, order.max_items - order.sample_keys))
    tiles = [ReconcileItem(cycle.name, tile) for tile in cycle.open_tiles[:wanted]]
    if not order.sample_keys:
        return tiles
    rows = sum(file.rows for file in current_files(silver))
    buckets = max(math.ceil(1 / order.share), math.ceil(rows / SAMPLED_KEYS))
    sample = ReconcileItem(cycle.name, None, reports.samples() % buckets, buckets)
    return [*tiles, sample]


def _new_cycle(order: ReconcileOrder, reports: ReconcileTable, *, connect: Connect) -> Cycle:
    with connect() as session:
        source = keyed(loadable_table(session, order.table))
        with session.transaction():
            plan = cut_ranges(
                session,
                source.description.table,
                source.keys,
                rows_per_range=order.rows_per_tile,
                max_ranges=MAX_TILES,
            )
        name = f"{now(session, source.description.instance).text}-{order.attempt.run}"
    log.info("%s: a new cycle of %d tile(s) by %s", order.label, len(plan.ranges), plan.method)
    return reports.begin_cycle(name, plan.ranges)


def open_tables(order: ReconcileOrder) -> tuple[Bronze, Silver] | Skipped:
    bronze = open_existing(TableLocation.bronze_of(order.table))
    silver = open_silver(TableLocation(order.silver, order.table.storage_options))
    if silver is None or silver.position is None:
        return Skipped(f"{order.label}: there is no silver at {order.silver} yet; run a merge first")
    refuse_foreign(silver, bronze)
    return bronze, silver


def keyed(source: LoadableTable) -> LoadableTable:
    """Return the table cut on its key: with ``split_by`` a row could leave its tile without a key change."""
    key = source.keys.key
    cut = key if key is not None and all(is_bindable(column.sql_type) for column in key) else None
    return replace(source, keys=replace(source.keys, split_by=cut, split_is_unique=cut is not None))
