"""The one place where Delta tables are opened, created, queried, reloaded and committed to."""

from __future__ import annotations

import json
import logging
import random
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, QueryBuilder, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.errors import CommitConflict, ConfigurationError, IncompletePlan
from airflow_provider_mssql_cdc.lake.log import COMMIT_KEY, EVENT_KEY, run_has_committed
from airflow_provider_mssql_cdc.lake.schema import STATISTICS_PROPERTY
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.plan import Attempt

log = logging.getLogger(__name__)


def load_table(location: TableLocation) -> DeltaTable:
    """The table at its newest version.

    :raises deltalake.exceptions.TableNotFoundError: there is none.
    """
    return DeltaTable(location.uri, storage_options=location.options())


def open_table(location: TableLocation) -> DeltaTable | None:
    """The table at its newest version, None when there is none."""
    try:
        return load_table(location)
    except TableNotFoundError:
        return None


def create_table(
    location: TableLocation, schema: pa.Schema, *, name: str, description: str, properties: Mapping[str, str]
) -> DeltaTable:
    """An empty table; of two that create it at once both get the first one's.

    :raises deltalake.exceptions.DeltaError: no table can be created there.
    """
    try:
        return DeltaTable.create(
            location.uri,
            schema,
            name=name,
            description=description,
            configuration=properties,
            storage_options=location.options(),
            # With retries delta-rs lets two creators both succeed: the later one's metadata replaces the
            # first one's in a version of its own (tried, 1.6.6).
            commit_properties=CommitProperties(max_commit_retries=0),
            # By default delta-rs refuses properties that it does not know, such as mssql_cdc.source.
            raise_if_key_not_exists=False,
        )
    except DeltaError:
        if (theirs := open_table(location)) is None:
            raise
        return theirs


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of the table's version, as the log describes it.

    :param logged: its path as the log has it, percent-encoded (Delta protocol, "Add File and Remove File").
    :param records: None where its writer left statistics out.
    :param bounds: smallest and largest value by column, where the log has both.
    :param nulls: number of NULLs by column, where the log has it.
    """

    logged: str
    records: int | None
    bounds: Mapping[str, tuple[Any, Any]]
    nulls: Mapping[str, int]

    @property
    def path(self) -> str:
        """Relative to the table's root, decoded."""
        return unquote(self.logged)

    @property
    def rows(self) -> int:
        assert self.records is not None
        return self.records

    def is_empty_in(self, column: str) -> bool:
        """Whether every row has NULL there."""
        return self.records is not None and self.nulls.get(column) == self.records


def stored_files(table: DeltaTable, columns: Sequence[str] = ()) -> list[StoredFile]:
    """All files of the handle's version.

    :param columns: whose statistics are wanted.
    """
    wanted = [f"{kind}.{name}" for kind in ("min", "max", "null_count") for name in columns]
    actions = read_all(table.get_add_actions(flatten=True))
    known = [name for name in ("path", "num_records", *wanted) if name in actions.column_names]
    return [_stored_file(action, columns) for action in actions.select(known).to_pylist()]


def stored_bytes(table: DeltaTable) -> int:
    """The size of all files of the handle's version."""
    return sum(read_all(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist())


def _stored_file(action: dict[str, Any], columns: Sequence[str]) -> StoredFile:
    bounds = {name: (action.get(f"min.{name}"), action.get(f"max.{name}")) for name in columns}
    nulls = {name: action.get(f"null_count.{name}") for name in columns}
    return StoredFile(
        logged=action["path"],
        records=action.get("num_records"),
        bounds={name: both for name, both in bounds.items() if None not in both},
        nulls={name: count for name, count in nulls.items() if count is not None},
    )


def read_all(stream: Any) -> pa.Table:
    """What deltalake returns, as a pyarrow table."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def query(table: DeltaTable, statement: str) -> list[dict[str, Any]]:
    """The rows that a SELECT gives; the statement calls the table ``stored``."""
    result = QueryBuilder().register("stored", table).execute(statement)
    rows: list[dict[str, Any]] = read_all(result).to_pylist()
    return rows


def write_rows(
    table: DeltaTable, rows: pa.Table, *, transactions: Sequence[Transaction], replacing: str | None = None
) -> None:
    """Append rows in one commit on the handle's version, for tables that delta-rs itself writes.

    :param replacing: an SQL predicate; rows that meet it are taken out in the same commit.
    :raises deltalake.exceptions.CommitFailedError: a conflicting commit was first; nothing was written.
    """
    stored = CommitProperties(app_transactions=distinct(transactions))
    if replacing is None:
        write_deltalake(table, rows, mode="append", commit_properties=stored)
    else:
        write_deltalake(table, rows, mode="overwrite", predicate=replacing, commit_properties=stored)


def distinct(transactions: Sequence[Transaction]) -> list[Transaction]:
    """Check that no app id occurs twice and that no version is negative; return a plain list."""
    # The protocol forbids two transactions of one app id in a commit (delta-io/delta#3787); delta-rs writes
    # them all the same, and a commit whose app id is recorded already, too (delta-io/delta-rs#2580).
    app_ids = [transaction.app_id for transaction in transactions]
    if len(set(app_ids)) < len(app_ids) or any(transaction.version < 0 for transaction in transactions):
        raise ValueError(f"app ids must be distinct and versions >= 0, got {app_ids}")
    return list(transactions)


class InDoubt:
    """Files of commits whose outcome is unknown. They are never removed."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def hand_over(self, paths: Iterable[str]) -> None:
        """Add the files of a commit, before it is sent: it may land although no answer comes."""
        self._paths.update(paths)

    def take_back(self, paths: Iterable[str]) -> None:
        """Drop the files of a commit when another one holds its version: it cannot land any more."""
        self._paths.difference_update(paths)


class LakeTable(ABC):
    """A handle on one version of a Delta table whose files this package writes.

    What is decided on that version is committed with the same handle: a commit that another one has
    overtaken fails, and the caller reloads and decides again.
    """

    table: DeltaTable

    def __init__(self, location: TableLocation, table: DeltaTable) -> None:
        self.location, self.in_doubt = location, InDoubt()
        self._take(table)

    @abstractmethod
    def _take(self, table: DeltaTable) -> None:
        """Check a version and set :attr:`table` to it; after an error the handle is where it was."""

    def reload(self) -> Self:
        """Move this handle to the newest version, check it again, and return it."""
        self._take(load_table(self.location))
        return self

    @property
    def version(self) -> int:
        return int(self.table.version())

    @property
    def statistics_columns(self) -> tuple[str, ...]:
        """The columns that files in this table carry minimum and maximum for."""
        named = self.table.metadata().configuration.get(STATISTICS_PROPERTY, "")
        return tuple(name for name in named.split(",") if name)

    def earlier_try_committed(
        self, attempt: Attempt, *, events: Iterable[str], counted: Iterable[str] = ("rows",)
    ) -> bool:
        """Whether an earlier try of this Airflow run put rows into the table, and could not announce it.

        Reloads the handle in any try but the first.

        :param events: what the commits were, as the facts call them.
        :param counted: entries of ``userMetadata``, one of which counts rows.
        """
        return attempt.try_number > 1 and run_has_committed(
            self.reload().table, attempt.run_id, events=events, counted=counted
        )

    def commit_files(
        self,
        files: Sequence[AddAction | RemoveAction],
        *,
        event: str,
        transactions: Sequence[Transaction],
        user_metadata: Mapping[str, Any],
        overtaken: bool,
    ) -> int:
        """One commit on this handle's version; returns the version it became. Reload before the next.

        :param event: what the commit is, as the facts call it.
        :param overtaken: whether commits of others that do not conflict may have come first.
        :raises deltalake.exceptions.CommitFailedError: another commit was first; nothing was written.
        """
        token, before = secrets.token_hex(8), self.version
        properties = CommitProperties(
            custom_metadata={
                "userMetadata": json.dumps(user_metadata),
                COMMIT_KEY: token,
                EVENT_KEY: event,
            },
            app_transactions=distinct(transactions),
            # A retry rebases the commit onto later versions. The check for conflicts lets a remove pass whose
            # file an OPTIMIZE has removed (tried, 1.6.6; Delta's kernel had that gap: delta-io/delta#7163).
            max_commit_retries=None if overtaken else 0,
        )
        added = [file.path for file in files if isinstance(file, AddAction)]
        self.in_doubt.hand_over(added)
        try:
            self.table.create_write_transaction(
                list(files), mode="append", schema=self.table.schema(), commit_properties=properties
            )
        except CommitFailedError:
            # The answer of an object store may be lost: the retry then finds its own commit file and reports
            # a conflict (ADR 12). Only the log shows whose commit it is.
            landed = self._landed(token, above=before)
            if landed is None:
                self.in_doubt.take_back(added)
                raise
            return landed
        if not overtaken:
            return before + 1
        found = self._landed(token, above=before)
        if found is not None:
            return found
        # The log below was cleaned in the meantime; the newest version holds the commit.
        return int(load_table(self.location).version())

    def _landed(self, token: str, *, above: int) -> int | None:
        """The version that the commit with this token became, None when no version since has it."""
        newest = load_table(self.location)
        since = newest.version() - above
        for info in newest.history(since) if since > 0 else ():
            if info.get(COMMIT_KEY) == token:
                return int(info["version"])
        return None


MAX_TRIES = 40
_LONGEST_PAUSE_SECONDS = 2.0

Outcome = TypeVar("Outcome")


def until_committed(
    try_once: Callable[[], Outcome],
    *,
    what: str,
    reload: Callable[[], object] | None = None,
    tries: int = MAX_TRIES,
) -> Outcome:
    """Call ``try_once`` until no other commit conflicts with it.

    ``try_once`` decides on a handle and commits with that one handle. delta-rs has its own 15 attempts
    inside each try; they keep the decision, and give up when many write at once or when the decision
    itself is overtaken. The pauses grow and are random, so that two do not collide again.

    A commit of another process that makes staged files unnecessary may remove them before this one looks.
    When files are missing, it is therefore decided once more on the newest version.

    :param reload: called before each further try, to decide on the newest version.
    :raises CommitConflict: after ``tries`` of them; the pauses of 40 add up to half a minute or so.
    :raises IncompletePlan: staged files are missing although they are still needed.
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
