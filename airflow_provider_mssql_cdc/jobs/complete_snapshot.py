"""``complete``: bronze first, then the ranges, then one commit, then the facts row, then tidying."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.staged import ReadHorizon

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompletedSnapshot:
    """What ``complete`` returns: the hand-over to whoever reads changes.

    :param snapshot: S; changes continue above it.
    :param commit_ts: S's commit time in UTC, None where S is no mapped commit.
    :param version: a version of bronze that holds the snapshot.
    :param horizon: what the changes have to pass until the rebuilt state equals the source.
    """

    snapshot: Lsn
    commit_ts: datetime | None
    rows: int | None
    version: int
    horizon: ReadHorizon | None

    def to_xcom(self) -> dict[str, Any]:
        return {
            "lsn": self.snapshot.text,
            "commit_ts": None if self.commit_ts is None else self.commit_ts.isoformat(),
            "rows": self.rows,
            "version": self.version,
            "consistent_after": None if self.horizon is None else self.horizon.consistent_after(),
        }
