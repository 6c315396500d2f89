"""The Delta log: commits that are retried, and what other writers did."""

from __future__ import annotations

import json
import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError

from airflow_provider_mssql_cdc.errors import CommitConflict, ConfigurationError, IncompletePlan, StateDamaged
from airflow_provider_mssql_cdc.lake.arrays import read_all
from airflow_provider_mssql_cdc.model.state import BronzeState

log = logging.getLogger(__name__)

MAX_TRIES = 40
_LONGEST_PAUSE_SECONDS = 2.0

CREATE_ONCE = CommitProperties(max_commit_retries=0)
"""For the commit that creates a table: with its retries delta-rs lets two creators both succeed, the later
one putting its metadata over the first one's in a version of its own (tried, 1.6.6)."""

Outcome = TypeVar("Outcome")


def until_committed(
    try_once: Callable[[], Outcome],
    *,
    what: str,
    reload: Callable[[], object] | None = None,
    tries: int = MAX_TRIES,
) -> Outcome:
    """Call ``try_once`` until no other commit gets in its way.

    ``try_once`` decides on a handle and commits with that one handle. delta-rs has its own 15 attempts
    inside each try; they keep the decision, and give up when many write at once or when the decision
    itself is overtaken. The pauses grow and are random, so that two do not collide again.

    A commit of another that makes staged files needless may remove them before this one looks: when files
    are missing it is decided once more on the newest version, and they are missed only if they are needed.

    :param reload: called before each further try, to decide on the newest version.
    :raises CommitConflict: after ``tries`` of them; the pauses of 40 add up to half a minute or so.
    :raises IncompletePlan: staged files are missing, and nobody has made them needless.
    """
    missed = False
    for number in range(1, tries + 1):
        try:
            return try_once()
        except IncompletePlan as exc:
            if missed or reload is None:
                raise
            log.debug("%s: %s; looking again", what, exc)
            missed = True
            reload()
        except CommitFailedError as exc:
            _refuse_what_no_try_changes(exc, what=what)
            if number == tries:
                raise CommitConflict(
                    f"{what}: another commit was first, {tries} times in a row ({exc}). Nothing was "
                    "written by this attempt; it can be tried again"
                ) from exc
            log.debug("%s: try %d lost to another commit: %s", what, number, exc)
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.02 * 2**number)))
            if reload is not None:
                reload()
    raise AssertionError("unreachable")  # the last try returns or raises


_NO_CONFLICTS = ("table features", "append-only")
"""delta-rs raises one class for conflicts and for tables that it cannot write (TransactionError, 1.6.6)."""


def _refuse_what_no_try_changes(failure: CommitFailedError, *, what: str) -> None:
    """:raises ConfigurationError: the table has a feature or a property that delta-rs cannot honour."""
    if any(words in str(failure).lower() for words in _NO_CONFLICTS):
        raise ConfigurationError(
            f"{what}: the table cannot be written: {failure}. Take the feature off with ALTER TABLE … DROP "
            "FEATURE, or the property with ALTER TABLE … UNSET TBLPROPERTIES; or name another path"
        ) from failure


COMMIT_KEY = "mssql_cdc.commit"
"""In the commit info of every commit that carries one of our transactions: a random text of its own."""

EVENT_KEY = "mssql_cdc.event"
"""In the same place: what the commit was, as the facts call it."""

_FORGETS_TRANSACTIONS = "delta.setTransactionRetentionDuration"
_RENAMES_COLUMNS = "delta.columnMapping.mode"


def refuse_unsafe_properties(table: DeltaTable) -> None:
    """Properties under which the state would vanish or staged files would be misread.

    :raises ConfigurationError: naming the property and how to take it back.
    """
    _refuse_features(table)
    properties = table.metadata().configuration
    if _FORGETS_TRANSACTIONS in properties:
        raise ConfigurationError(
            f"{table.table_uri} has {_FORGETS_TRANSACTIONS} set: Delta would drop the transactions that say "
            f"what has been loaded. ALTER TABLE … UNSET TBLPROPERTIES ('{_FORGETS_TRANSACTIONS}')"
        )
    if properties.get(_RENAMES_COLUMNS, "none") != "none":
        raise ConfigurationError(
            f"{table.table_uri} has {_RENAMES_COLUMNS} on: files are staged under the columns' own names and "
            "would be read as NULLs. Load into a bronze table without column mapping"
        )


_KNOWN_FEATURES = frozenset(
    {
        "timestampNtz",
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "changeDataFeed",
        "columnMapping",
        "v2Checkpoint",
        "deletionVectors",
        "variantType",
        "variantType-preview",
    }
)
"""What deltalake 1.6.6 commits under (each tried). Most ask nothing by being named: their properties do.
variantType is put there by delta-rs' own RESTORE, on tables without such a column."""

_COLUMN_RULES = ("delta.invariants", "delta.generationExpression", "delta.identity.")


def _refuse_features(table: DeltaTable) -> None:
    """:raises ConfigurationError: a feature that is not known, or a rule that rows would have to meet."""
    protocol = table.protocol()
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    if unknown := sorted(features - _KNOWN_FEATURES):
        raise ConfigurationError(
            f"{table.table_uri} has table feature(s) on that this package cannot write under: "
            f"{', '.join(unknown)}. Take each off with ALTER TABLE … DROP FEATURE, or name another path"
        )
    rules = [name for name in table.metadata().configuration if name.startswith("delta.constraints.")]
    rules += [
        f"{name} on column {field.name}"
        for field in table.schema().fields
        for name in field.metadata
        if name.startswith(_COLUMN_RULES)
    ]
    if rules:
        raise ConfigurationError(
            f"{table.table_uri} has rules that rows are not checked against when files are added: "
            f"{', '.join(sorted(rules))}. Take each off (ALTER TABLE … DROP CONSTRAINT), or name another path"
        )


def refuse_append_only(table: DeltaTable) -> None:
    """:raises ConfigurationError: rows may not be replaced in this table."""
    if table.metadata().configuration.get("delta.appendOnly", "false").lower() == "true":
        raise ConfigurationError(
            f"{table.table_uri} has delta.appendOnly on, and rows of it have to be replaced. ALTER TABLE … "
            "UNSET TBLPROPERTIES ('delta.appendOnly')"
        )


def refuse_rows_without_position(table: DeltaTable, state: BronzeState) -> None:
    """Rows that no transaction speaks of: a copy of the files, or rows that another tool wrote.

    :raises StateDamaged: with the remedy.
    """
    if state.coverage is None and _holds_rows(table):
        raise StateDamaged(
            f"{table.table_uri} at version {state.version} holds rows and no position: it was copied without "
            "its log, or another tool wrote to it. Load into a new bronze path"
        )


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


def refuse_deletion_vectors(table: DeltaTable) -> None:
    """Under deletion vectors a file's rows are not all rows of the table, and files are read as they are.

    :raises ConfigurationError: with the statement that takes the feature off.
    """
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise ConfigurationError(
            f"{table.table_uri} has deletion vectors on, under which a file's rows are not all rows of the "
            "table: deleted ones would come back. Take the feature off with ALTER TABLE … DROP FEATURE "
            "deletionVectors"
        )


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


def _holds_rows(table: DeltaTable) -> bool:
    records = read_all(table.get_add_actions()).column("num_records")
    return any(count is None or count > 0 for count in records.to_pylist())
