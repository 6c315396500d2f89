"""What a merge is asked for, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from airflow_provider_mssql_cdc.lake.location import TableLocation
from airflow_provider_mssql_cdc.model.attempt import Attempt
from airflow_provider_mssql_cdc.model.silver import MergeCounts, SilverPosition
from airflow_provider_mssql_cdc.model.staged import ReadHorizon
from airflow_provider_mssql_cdc.planning.horizon import Consistency
from airflow_provider_mssql_cdc.table import MssqlCdcTable


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """What a run of a merge is asked for.

    :param silver: path or URI of the Delta table that holds the current state.
    :param wait_consistent: leave silver as it is until changes have passed the snapshot's horizon.
    """

    table: MssqlCdcTable
    silver: str
    attempt: Attempt
    wait_consistent: bool = False
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def location(self) -> TableLocation:
        return TableLocation(self.silver, self.table.storage_options)


@dataclass(frozen=True, slots=True)
class Awaited:
    """Silver was left as it is, since it was to wait; ``reason`` tells for what."""

    reason: str


@dataclass(frozen=True, slots=True)
class MergedSilver:
    """What silver is after a run.

    :param version: of silver.
    :param rows: in silver.
    :param rebuilt: why every row was replaced; None for a merge of changes.
    :param consistency: whether silver is the source's state at its position, row by row.
    :param horizon: what changes have to pass for that; None when no row was read.
    """

    version: int
    rows: int
    position: SilverPosition
    counts: MergeCounts
    rebuilt: str | None
    consistency: Consistency
    horizon: ReadHorizon | None

    def to_xcom(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "version": self.version,
            "rows": self.rows,
            "bronze_version": self.position.version,
            "snapshot": self.position.snapshot.text,
            "changes": self.position.changes.text,
            "inserted": self.counts.inserted,
            "updated": self.counts.updated,
            "deleted": self.counts.deleted,
            "files_added": self.counts.files_added,
            "files_removed": self.counts.files_removed,
            "rebuilt": self.rebuilt,
            "consistent": self.consistency.passed,
            "consistent_after": None if self.horizon is None else self.horizon.consistent_after(),
            "reason": self.consistency.reason,
        }
