"""The Delta log: what other writers, and earlier tries, did to a table.

A commit of another tool that removes files with ``dataChange`` (Delta protocol, "Add File and Remove File")
took rows away, or put others in their place: DELETE, UPDATE, MERGE, an overwrite. OPTIMIZE says false there.

Each commit of ours records what was noticed below it: delta-rs refuses one that was decided before such a
removal, as a conflict (tried, 1.6.6). So only what stands above our newest is looked at in the log.
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
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.state import BronzeState

COMMIT_KEY = "mssql_cdc.commit"
"""In the commit info of every commit that carries one of our transactions: a random text of its own."""

EVENT_KEY = "mssql_cdc.event"
"""In the same place: what the commit was, as the facts call it."""


def refuse_restored(table: DeltaTable, state: BronzeState, commits: Sequence[dict[str, Any]]) -> None:
    """Refuse a table whose rows a RESTORE took back: it leaves transactions as they are.

    delta-io/delta#1813 is the same in Spark; tried with delta-rs 1.6.6.

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
    :param ours: this package's last commit; None where the log no longer holds it.
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
    """Whether an Airflow run has put rows into this table, in any of its tries that the log still holds.

    :param events: what the commits were, as the facts call them.
    :param counted: entries of ``userMetadata``, one of which counts rows.
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
    # Nearly always the newest commit is ours; a whole log is one file per version to read.
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
    """The version that a RESTORE went back to, None where its commit info lacks it."""
    version = (restore.get("operationParameters") or {}).get("version")
    return int(version) if version is not None and str(version).isdigit() else None


@dataclass(frozen=True, slots=True)
class Thinned:
    """Another tool removed rows of bronze.

    :param position: rows up to this LSN, of changes and of snapshots, may be missing.
    :param version: of bronze, the commit that removed them.
    :param operation: as its tool called it; None where only our record is left.
    :param undone_by: the version to RESTORE bronze to; None where that would take rows of ours back.
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
    """What a commit of ours has recorded."""
    position, version = read_lsn(table, THINNED), table.transaction_version(f"{THINNED}.version")
    return None if position is None else Thinned(position, version or 0)


def noticed(
    commits: Sequence[dict[str, Any]], storage: Callable[[], TableStorage], *, state: BronzeState
) -> Thinned | None:
    """What no commit of ours has recorded yet, by the lowest version that removed rows.

    :param commits: what :func:`~airflow_provider_mssql_cdc.lake.log.down_to_ours` gave.
    :param storage: made only when there is a commit of another to read.
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
    """The lowest commit of another that removed rows and that no RESTORE among ``commits`` has undone.

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
    """Whether a commit removes files together with their rows. A missing ``dataChange`` counts as true."""
    return any(action["remove"].get("dataChange", True) for action in actions if "remove" in action)


def commit_actions(storage: TableStorage, version: int) -> list[dict[str, Any]] | None:
    """A commit as the Delta protocol keeps it, one JSON object a line; None when the log forgot it."""
    name = f"_delta_log/{version:020d}.json"
    if storage.size(name) is None:
        return None
    with storage.open(name) as file:
        text = file.read().decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]


class LogForgotten(Exception):
    """The log no longer holds what is asked for, or the files that it names are gone."""
