"""The Delta log: what other writers, and earlier tries, did to a table."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.model.state import BronzeState

COMMIT_KEY = "mssql_cdc.commit"
"""In the commit info of every commit that carries one of our transactions: a random text of its own."""

EVENT_KEY = "mssql_cdc.event"
"""In the same place: what the commit was, as the facts call it."""


def refuse_restored(table: DeltaTable, state: BronzeState, commits: Sequence[dict[str, Any]]) -> None:
    """A RESTORE takes rows back and leaves transactions as they are (tried, delta-rs 1.6.6).

    A RESTORE to our newest commit, or to a version above it, took nothing of ours; this is also how an
    unlucky one is undone. What the log no longer holds cannot be checked.

    :param commits: what :func:`down_to_ours` gave.
    :raises StateDamaged: naming both versions.
    """
    if state.coverage is not None and (restore := restore_below_ours(commits)) is not None:
        ours = restore.ours
        raise StateDamaged(
            f"{table.table_uri}: version {restore.version} is a RESTORE to below this package's last commit"
            + (f" (version {ours})" if ours is not None else "")
            + ": rows were taken back while the positions stayed. RESTORE the table to "
            + (f"version {ours} or a later one" if ours is not None else "the version before it")
            + ", or load into a new bronze path"
        )


@dataclass(frozen=True, slots=True)
class RestoreBelow:
    """A RESTORE that took rows of ours back.

    :param version: the RESTORE's own.
    :param ours: this package's last commit; None where the log no longer tells.
    """

    version: int
    ours: int | None


def restore_below_ours(commits: Sequence[dict[str, Any]]) -> RestoreBelow | None:
    """The newest RESTORE in force that went to below this package's last commit; None when there is none.

    :param commits: what :func:`down_to_ours` gave.
    """
    ours = newest_of_ours(commits)
    in_force = None
    for commit in commits:
        version = commit["version"]
        if commit.get("operation") != "RESTORE" or (in_force is not None and version > in_force):
            continue
        target = restore_target(commit)
        if ours is None or target is None or target < ours:
            return RestoreBelow(version, ours)
        in_force = target
    return None


_RUNS_COMMITS_SEARCHED = 200


def run_has_committed(
    table: DeltaTable, run_id: str, *, events: Iterable[str], counted: Iterable[str] = ("rows",)
) -> bool:
    """Whether an Airflow run has put rows into this table, in any of its tries, as far as the log tells.

    :param events: what the commits were, as the facts call them.
    :param counted: entries of ``userMetadata``, one of which tells of rows.
    """
    wanted = set(events)
    for commit in table.history(_RUNS_COMMITS_SEARCHED):
        if commit.get(EVENT_KEY) in wanted:
            told = json.loads(commit.get("userMetadata") or "{}")
            if told.get("run_id") == run_id and any(told.get(name) for name in counted):
                return True
    return False


def down_to_ours(table: DeltaTable) -> list[dict[str, Any]]:
    """Commit infos, newest first, down to the newest of ours; all that the log holds when there is none."""
    for limit in (1, 50, None):
        commits = table.history(limit)
        for count, commit in enumerate(commits, start=1):
            if COMMIT_KEY in commit:
                return commits[:count]
    return commits


def newest_of_ours(commits: Sequence[dict[str, Any]]) -> int | None:
    """Its version, the last of what :func:`down_to_ours` gave; None where the log holds none."""
    return int(commits[-1]["version"]) if commits and COMMIT_KEY in commits[-1] else None


def restore_target(restore: dict[str, Any]) -> int | None:
    """The version that a RESTORE went back to, None where its commit info does not say."""
    version = (restore.get("operationParameters") or {}).get("version")
    return int(version) if version is not None and str(version).isdigit() else None
