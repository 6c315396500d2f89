"""Abandon an unfinished chunked snapshot on request."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_bronze
from airflow_provider_mssql_cdc.lake.chunked import abandon_unfinished, delete_rows
from airflow_provider_mssql_cdc.lake.staged_files import remove_waves_losers
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.table import MssqlCdcTable

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """Describe what :func:`abandon` removed.

    :param snapshot: S of the abandoned snapshot; None when no chunked snapshot was open.
    :param files: number of uncommitted staged files that were removed.
    :param rows: number of rows of its waves that were deleted from bronze.
    """

    snapshot: Lsn | None
    files: int = 0
    rows: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return JSON types."""
        return {
            "snapshot": None if self.snapshot is None else self.snapshot.text,
            "files": self.files,
            "rows": self.rows,
        }


def abandon(
    table: MssqlCdcTable, *, attempt: Attempt, snapshot: Lsn | None = None, rows: bool = False
) -> Abandoned:
    """Abandon the open chunked snapshot: its remaining waves fail, and the next run opens a new one.

    Coverage does not change, so changes continue; a complete snapshot is not affected. Idempotent.

    :param snapshot: abandon this S only; if it was abandoned before, remove its leftovers.
    :param rows: also delete the rows that its waves committed. Rows that are kept are never used.
    """
    bronze = open_bronze(TableLocation.bronze_of(table))
    given_up = None if bronze is None else _given_up(bronze, snapshot, run_id=attempt.run_id)
    if bronze is None or given_up is None:
        log.info("%s: no chunked snapshot is being loaded; nothing to abandon", table.label)
        return Abandoned(None)
    log.warning("%s: chunked snapshot %s is abandoned", table.label, given_up)
    deleted = delete_rows(bronze, given_up) if rows else 0
    files = remove_waves_losers(bronze.location, snapshot=given_up)
    return Abandoned(given_up, files, deleted)


def _given_up(bronze: Bronze, snapshot: Lsn | None, *, run_id: str) -> Lsn | None:
    """Return the snapshot to clean up: abandoned now, or by an earlier call that may not have finished."""
    now = abandon_unfinished(bronze, run_id=run_id, snapshot=snapshot)
    if now is not None or snapshot is None or snapshot != bronze.state.abandoned:
        return now
    complete = bronze.state.snapshot
    return snapshot if complete is None or complete < snapshot else None
