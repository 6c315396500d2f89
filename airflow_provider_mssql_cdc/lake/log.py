"""The Delta log: what other writers, and earlier tries, did to a table.

A commit of another tool that removes files with ``dataChange`` (Delta protocol, "Add File and Remove File")
deleted or replaced rows: DELETE, UPDATE, MERGE, an overwrite. OPTIMIZE sets it to false.

Each of our commits records the removals found below it: delta-rs rejects a commit that was decided before
such a removal as a conflict (tried, 1.6.6). So only the commits above our newest are read from the log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable, Transaction

from airflow_provider_mssql_cdc.errors import StateDamaged
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.lake.transactions import THINNED, lsn_transactions, read_lsn
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState

COMMIT_KEY = "mssql_cdc.commit"
"""Commit info key of a random token, in every commit with one of our transactions."""

EVENT_KEY = "mssql_cdc.event"
"""Commit info key of the event's name in the facts."""

FOLD_EVENT: Event = "fold"
"""The event of a commit that writes bronze's own state as its snapshot."""


def refuse_restored(table: DeltaTable, state: BronzeState, commits: Sequence[dict[str, Any]]) -> None:
    """Refuse a table whose rows were reverted by a RESTORE, which keeps the transactions.

    delta-io/delta#1813 is the same in Spark; tried with delta-rs 1.6.6.

    A RESTORE to our newest commit, or to a version above it, reverted nothing of ours; this is also how to
    undo an unwanted one. Commits that the log no longer has cannot be checked.

    :param commits: result of :func:`down_to_ours`.
    :raises StateDamaged: names both versions.
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
    """A RESTORE that reverted our rows.

    :param version: the version of the RESTORE.
    :param ours: this package's last commit; None when the log no longer has it.
    """

    version: int
    ours: int | None


def restore_below_ours(commits: Sequence[dict[str, Any]]) -> RestoreBelow | None:
    """Return the newest effective RESTORE to below this package's last commit; None when there is none.

    :param commits: result of :func:`down_to_ours`.
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
    """Return whether an Airflow run committed rows to this table, in any try that the log still has.

    :param events: event names of the commits, as in the facts.
    :param counted: entries of ``userMetadata``, one of which counts rows.
    """
    wanted = set(events)
    for commit in table.history(_RUNS_COMMITS_SEARCHED):
        if commit.get(EVENT_KEY) in wanted:
            told = json.loads(commit.get("userMetadata") or "{}")
            if told.get("run_id") == run_id and any(told.get(name) for name in counted):
                return True
    return False


def came_since(table: DeltaTable, version: int, event: Event) -> bool:
    """Return whether a commit of this event is above a version; as far as the log still has it."""
    above = table.version() - version
    return above > 0 and any(commit.get(EVENT_KEY) == event for commit in table.history(above))


def down_to_ours(table: DeltaTable) -> list[dict[str, Any]]:
    """Return commit infos, newest first, down to our newest commit; the whole log when there is none."""
    # Nearly always the newest commit is ours; a whole log is one file per version to read.
    for limit in (1, 50, None):
        commits = table.history(limit)
        for count, commit in enumerate(commits, start=1):
            if COMMIT_KEY in commit:
                return commits[:count]
    return commits


def newest_of_ours(commits: Sequence[dict[str, Any]]) -> int | None:
    """Return the version of our newest commit, from :func:`down_to_ours`; None when the log has none."""
    return int(commits[-1]["version"]) if commits and COMMIT_KEY in commits[-1] else None


def restore_target(restore: dict[str, Any]) -> int | None:
    """Return the version that a RESTORE reverted to; None if its commit info lacks it."""
    version = (restore.get("operationParameters") or {}).get("version")
    return int(version) if version is not None and str(version).isdigit() else None


@dataclass(frozen=True, slots=True)
class Thinned:
    """Another tool removed rows of bronze.

    :param position: rows of changes and snapshots up to this LSN may be missing.
    :param version: the bronze commit that removed them.
    :param operation: its name in the log; None when only our record of it is left.
    :param undone_by: the version to RESTORE bronze to; None if that would revert our own rows.
    """

    position: Lsn
    version: int
    operation: str | None = None
    undone_by: int | None = None

    def __str__(self) -> str:
        named = f" ({self.operation})" if self.operation else ""
        return f"rows were removed by another tool in version {self.version}{named}"

    @property
    def remedy(self) -> str:
        again = "a new run of mssql_cdc_bootstrap(resnapshot=True) takes a new snapshot"
        if self.undone_by is None:
            return again
        return f"RESTORE bronze to version {self.undone_by} before anything else is loaded, or {again}"

    def refuse(self, where: object, snapshot: Lsn) -> None:
        """:raises StateDamaged: rows of this snapshot, or changes above it, may be missing."""
        if snapshot <= self.position:
            raise StateDamaged(
                f"{where}: {self}, so silver cannot be built from snapshot {snapshot}: deleted rows "
                f"could come back, and others could be missing. Silver is unchanged. {self.remedy}"
            )

    def transactions(self) -> list[Transaction]:
        return [*lsn_transactions(THINNED, self.position), Transaction(f"{THINNED}.version", self.version)]


def read_thinned(table: DeltaTable) -> Thinned | None:
    """Return what our commits have recorded."""
    position, version = read_lsn(table, THINNED), table.transaction_version(f"{THINNED}.version")
    return None if position is None else Thinned(position, version or 0)


def noticed(
    commits: Sequence[dict[str, Any]], storage: Callable[[], TableStorage], *, state: BronzeState
) -> Thinned | None:
    """Return what no commit of ours has recorded yet, by the lowest version that removed rows.

    :param commits: result of :func:`~airflow_provider_mssql_cdc.lake.log.down_to_ours`.
    :param storage: created only when there is a commit of another tool to read.
    """
    if state.coverage is None or all(COMMIT_KEY in commit for commit in commits):
        return None
    opened = storage()
    removal = first_removal(commits, lambda version: removes_rows(commit_actions(opened, version) or ()))
    if removal is None:
        return None
    version = int(removal["version"])
    known = [state.coverage.changes, *([state.newest] if state.newest else [])]
    return Thinned(
        max(known),
        version,
        operation=removal.get("operation"),
        undone_by=None if newest_of_ours(commits) is None else version - 1,
    )


def first_removal(commits: Sequence[dict[str, Any]], removes: Callable[[int], bool]) -> dict[str, Any] | None:
    """Return the lowest foreign commit that removed rows and that no RESTORE in ``commits`` undid.

    :param commits: infos, newest first, without gaps.
    """
    found, in_force = None, int(commits[0]["version"]) if commits else 0
    lowest = int(commits[-1]["version"]) if commits else 0
    for commit in commits:
        version = int(commit["version"])
        if version > in_force or COMMIT_KEY in commit or EVENT_KEY in commit:
            continue
        target = restore_target(commit) if commit.get("operation") == "RESTORE" else None
        if target is not None and target >= lowest - 1:
            in_force = target
        elif removes(version):
            found = commit
    return found


def removes_rows(actions: Sequence[dict[str, Any]]) -> bool:
    """Return whether a commit removes files with their rows. A missing ``dataChange`` counts as true."""
    return any(action["remove"].get("dataChange", True) for action in actions if "remove" in action)


def commit_actions(storage: TableStorage, version: int) -> list[dict[str, Any]] | None:
    """Return the actions of a commit, one JSON object per line; None when the log no longer has it."""
    name = f"_delta_log/{version:020d}.json"
    if storage.size(name) is None:
        return None
    with storage.open(name) as file:
        text = file.read().decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]


class LogForgotten(Exception):
    """The log no longer has the requested commits, or the files that they name are gone."""
