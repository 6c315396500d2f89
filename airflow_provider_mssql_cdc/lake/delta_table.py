"""The one place that opens, creates, queries, reloads and commits to Delta tables."""

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


class RememberingTable(DeltaTable):
    """A handle that looks up each transaction once per version of the table."""

    # delta-rs has no call for all transactions at once, and each look-up reads the log again: 0.24 ms on a
    # local disk, and on an object store a request for each commit since the checkpoint (tried, 1.6.6).
    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known_at, self._known = -1, dict[str, int | None]()

    def transaction_version(self, app_id: str) -> int | None:
        if self._known_at != (version := self.version()):
            self._known_at, self._known = version, {}
        if app_id not in self._known:
            self._known[app_id] = super().transaction_version(app_id)
        return self._known[app_id]


def load_table(location: TableLocation) -> DeltaTable:
    """Open the table at its newest version.

    :raises deltalake.exceptions.TableNotFoundError: it does not exist.
    """
    return RememberingTable(location.uri, storage_options=location.options())


def open_table(location: TableLocation) -> DeltaTable | None:
    """Open the table at its newest version; None if it does not exist."""
    try:
        return load_table(location)
    except TableNotFoundError:
        return None


def create_table(
    location: TableLocation, schema: pa.Schema, *, name: str, description: str, properties: Mapping[str, str]
) -> DeltaTable:
    """Create an empty table; concurrent creators all get the first one's.

    :raises deltalake.exceptions.DeltaError: no table can be created there.
    """
    try:
        return RememberingTable.create(
            location.uri,
            schema,
            name=name,
            description=description,
            configuration=properties,
            storage_options=location.options(),
            # With retries delta-rs lets two creators both succeed: the later one's metadata replaces the
            # first one's in a separate version (tried, 1.6.6).
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
    """A file of the table's version, as described in the log.

    :param logged: its path in the log, percent-encoded (Delta protocol, "Add File and Remove File").
    :param records: None if its writer omitted statistics.
    :param bounds: minimum and maximum by column, if the log has both.
    :param nulls: number of NULLs by column, if the log has it.
    :param size: in bytes.
    :param modified: when it was written, by its writer's clock, in milliseconds since 1970.
    """

    logged: str
    records: int | None
    bounds: Mapping[str, tuple[Any, Any]]
    nulls: Mapping[str, int]
    size: int
    modified: int

    @property
    def path(self) -> str:
        """Return the decoded path relative to the table's root."""
        return unquote(self.logged)

    @property
    def rows(self) -> int:
        assert self.records is not None
        return self.records

    def is_empty_in(self, column: str) -> bool:
        """Return whether the column is NULL in every row."""
        return self.records is not None and self.nulls.get(column) == self.records


def stored_files(table: DeltaTable, columns: Sequence[str] = ()) -> list[StoredFile]:
    """Return all files of the handle's version.

    :param columns: columns whose statistics are needed.
    """
    wanted = [f"{kind}.{name}" for kind in ("min", "max", "null_count") for name in columns]
    actions = read_all(table.get_add_actions(flatten=True))
    always = ("path", "num_records", "size_bytes", "modification_time")
    known = [name for name in (*always, *wanted) if name in actions.column_names]
    return [_stored_file(action, columns) for action in actions.select(known).to_pylist()]


def stored_bytes(table: DeltaTable) -> int:
    """Return the total size of the files of the handle's version."""
    return sum(read_all(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist())


def _stored_file(action: dict[str, Any], columns: Sequence[str]) -> StoredFile:
    bounds = {name: (action.get(f"min.{name}"), action.get(f"max.{name}")) for name in columns}
    nulls = {name: action.get(f"null_count.{name}") for name in columns}
    return StoredFile(
        logged=action["path"],
        records=action.get("num_records"),
        bounds={name: both for name, both in bounds.items() if None not in both},
        nulls={name: count for name, count in nulls.items() if count is not None},
        size=action["size_bytes"],
        modified=action["modification_time"],
    )


def remove_actions(files: Iterable[StoredFile], *, data_change: bool = True) -> list[RemoveAction]:
    """Return the log entries that take these files out of the table.

    :param data_change: False when the same commit adds their rows in other files.
    """
    now = int(time.time() * 1000)
    # A remove names its file as the add did (Delta protocol, "Add File and Remove File"): not decoded.
    return [RemoveAction(file.logged, data_change, now) for file in files]


def read_all(stream: Any) -> pa.Table:
    """Return a deltalake result as a pyarrow table."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def query(table: DeltaTable, statement: str) -> list[dict[str, Any]]:
    """Return the rows of a SELECT; the statement refers to the table as ``stored``."""
    result = QueryBuilder().register("stored", table).execute(statement)
    rows: list[dict[str, Any]] = read_all(result).to_pylist()
    return rows


def write_rows(
    table: DeltaTable, rows: pa.Table, *, transactions: Sequence[Transaction], replacing: str | None = None
) -> None:
    """Append rows in one commit on the handle's version, for tables whose files delta-rs writes.

    :param replacing: SQL predicate; matching rows are removed in the same commit.
    :raises deltalake.exceptions.CommitFailedError: a conflicting commit came first; nothing was written.
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
        """Add a commit's files before it is sent: it may succeed although no response arrives."""
        self._paths.update(paths)

    def take_back(self, paths: Iterable[str]) -> None:
        """Remove a commit's files when another commit has its version: it can no longer succeed."""
        self._paths.difference_update(paths)


class LakeTable(ABC):
    """A handle on one version of a Delta table whose files this package writes.

    A decision based on that version is committed with the same handle: if another commit came first, it
    fails, and the caller reloads and decides again.
    """

    table: DeltaTable

    def __init__(self, location: TableLocation, table: DeltaTable) -> None:
        self.location, self.in_doubt = location, InDoubt()
        self._take(table)

    @abstractmethod
    def _take(self, table: DeltaTable) -> None:
        """Validate a version and set :attr:`table` to it; on error the handle keeps its version."""

    def reload(self) -> Self:
        """Move this handle to the newest version, validate it, and return it."""
        self._take(load_table(self.location))
        return self

    @property
    def version(self) -> int:
        return int(self.table.version())

    def noticed_transactions(self) -> Sequence[Transaction]:
        """Return what every commit of this table has to record about the commits below it."""
        return ()

    @property
    def statistics_columns(self) -> tuple[str, ...]:
        """Return the columns for which this table's files carry minimum and maximum."""
        named = self.table.metadata().configuration.get(STATISTICS_PROPERTY, "")
        return tuple(name for name in named.split(",") if name)

    def earlier_try_committed(
        self, attempt: Attempt, *, events: Iterable[str], counted: Iterable[str] = ("rows",)
    ) -> bool:
        """Return whether an earlier try of this Airflow run committed rows without emitting its asset event.

        Reloads the handle except in the first try.

        :param events: event names of the commits, as in the facts.
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
        """Commit on this handle's version and return the new version. Reload before the next commit.

        :param event: the event's name in the facts.
        :param overtaken: whether non-conflicting commits may have come first.
        :raises deltalake.exceptions.CommitFailedError: another commit came first; nothing was written.
        """
        # Commit info carries the token: Delta's own txn actions cannot show which of two processes wrote
        # them.
        token, before = secrets.token_hex(8), self.version
        properties = CommitProperties(
            custom_metadata={
                "userMetadata": json.dumps(user_metadata),
                COMMIT_KEY: token,
                EVENT_KEY: event,
            },
            app_transactions=distinct([*transactions, *self.noticed_transactions()]),
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
        """Return the version of the commit with this token; None when no version since has it."""
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
    """Call ``try_once`` until it does not conflict with another commit.

    ``try_once`` decides and commits with one handle. Within each try delta-rs makes up to 15 attempts of its
    own; they keep the decision, and fail when many writers commit at once or the decision is outdated. The
    pauses grow and are random, so that two writers do not collide again.

    A commit of another process that makes staged files unnecessary may remove them before this one checks
    them. So when files are missing, the decision is made once more on the newest version.

    :param reload: called before each retry, to decide on the newest version.
    :raises CommitConflict: after ``tries`` conflicts; the pauses of 40 tries add up to about half a minute.
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
"""Messages of permanent errors; delta-rs 1.6.6 uses one class for these and conflicts (TransactionError)."""


def _refuse_what_no_try_changes(failure: CommitFailedError, *, what: str) -> None:
    """:raises ConfigurationError: the table has a feature or a property that delta-rs cannot honour."""
    if any(words in str(failure).lower() for words in _NO_CONFLICTS):
        raise ConfigurationError(
            f"{what}: the table cannot be written: {failure}. Take the feature off with ALTER TABLE … DROP "
            "FEATURE, or the property with ALTER TABLE … UNSET TBLPROPERTIES; or name another path"
        ) from failure
