"""The single commit of a merge or a rebuild."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.errors import CommitConflict, StateDamaged
from airflow_provider_mssql_cdc.lake.add_actions import actions_just_staged
from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.delta_table import StoredFile, remove_actions, until_committed
from airflow_provider_mssql_cdc.lake.log import (
    EVENT_KEY,
    FOLD_EVENT,
    LogForgotten,
    Thinned,
    commit_actions,
    first_removal,
    removes_rows,
)
from airflow_provider_mssql_cdc.lake.silver.files import (
    current_files,
    outdated_files,
    stage_rows,
    write_again,
)
from airflow_provider_mssql_cdc.lake.silver.images import KeyImages, KeyUpdates, updated_rows
from airflow_provider_mssql_cdc.lake.silver.rows import changed_files, named_keys
from airflow_provider_mssql_cdc.lake.silver.snapshot import DoubledKeys, find_doubled, snapshot_rows
from airflow_provider_mssql_cdc.lake.silver.table import Silver, position_of
from airflow_provider_mssql_cdc.lake.staged_files import discarding_on_failure
from airflow_provider_mssql_cdc.lake.storage import TableStorage
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.state import MergeCounts, SilverPosition
from airflow_provider_mssql_cdc.planning.merge import MergeSince, Rebuild, UpToDate

log = logging.getLogger(__name__)


class SilverMoved(CommitConflict):
    """Another merge moved silver's position; nothing was written."""


@dataclass(frozen=True, slots=True)
class MergeCommit:
    """State of silver after a commit.

    :param version: silver version.
    :param rows: number of rows in silver.
    :param rebuilt: why every row was replaced; None for a merge of changes.
    """

    version: int
    rows: int
    position: SilverPosition
    counts: MergeCounts
    rebuilt: str | None = None

    def user_metadata(self, run_id: str) -> dict[str, Any]:
        """Return what the commit records in the log, also for rebuilding a missing facts row."""
        return {
            "bronze_version": self.position.version,
            "snapshot": self.position.snapshot.text,
            "changes": self.position.changes.text,
            "rebuilt": self.rebuilt,
            "rows": self.rows,
            "changed_keys": self.counts.changed_keys,
            "inserted": self.counts.inserted,
            "updated": self.counts.updated,
            "deleted": self.counts.deleted,
            "files_added": self.counts.files_added,
            "files_removed": self.counts.files_removed,
            "files_kept": self.counts.files_kept,
            "bytes_added": self.counts.bytes_added,
            "run_id": run_id,
        }


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """One attempt to bring silver to a version of bronze.

    :param snapshot: S, whose rows silver starts from.
    :param decided_on: silver's position at the time of the decision.
    :param prefix: unique name prefix of the files to write.
    :param run_id: Airflow's run id, for the log.
    :param passed: whether changes have passed the snapshot's horizon.
    """

    silver: Silver
    bronze: Bronze
    snapshot: Lsn
    decided_on: SilverPosition | None
    prefix: str
    run_id: str
    passed: bool = False


def merge_changes(request: MergeRequest, *, since: int) -> MergeCommit:
    """Merge the change rows that were committed to bronze after version ``since``.

    Without such rows only the position moves, and no row is read.

    :raises LogForgotten: bronze can no longer list the changes since then, or a key's state; rebuild.
    :raises SilverMoved: another merge committed first.
    """
    silver, bronze = request.silver, request.bronze
    files = files_since(bronze, since)
    named = named_keys(bronze, files.added, key=silver.key, above=request.snapshot, withdrawn=files.withdrawn)
    if named is None:
        return _until_committed(request, lambda: _commit(request, [], ()))
    images = KeyImages(bronze, named, schema=silver.schema)

    def once() -> MergeCommit:
        updates = KeyUpdates(images)
        outdated = outdated_files(silver, updates)
        prefix = f"{request.prefix}-v{silver.version}"
        staged = write_again(silver, outdated, updates, prefix=prefix)
        with discarding_on_failure(silver, staged):
            return _commit(request, outdated, staged, updates=updates)

    return _until_committed(request, once)


def rebuild(request: MergeRequest, *, reason: str, confirm_empty: Callable[[], None]) -> MergeCommit:
    """Replace every row by the snapshot's rows with the changes above it; streamed, in one commit.

    :param confirm_empty: called before a non-empty silver becomes empty; raises to prevent that.
    :raises SilverMoved: another merge committed first.
    """
    silver, bronze, snapshot = request.silver, request.bronze, request.snapshot
    named = named_keys(bronze, changed_files(bronze, snapshot), key=silver.key, above=snapshot)
    updates = None if named is None else KeyUpdates(KeyImages(bronze, named, schema=silver.schema))
    doubled = find_doubled(bronze, snapshot, key=silver.key, but=None if named is None else named.keys)
    _refuse_doubled(request, doubled)
    rows = snapshot_rows(bronze, snapshot, schema=silver.schema, key=silver.key)
    staged = stage_rows(silver, request.prefix, updated_rows(doubled.once(rows), updates))

    def once() -> MergeCommit:
        if not staged and any(file.rows for file in current_files(silver)):
            confirm_empty()
        files = current_files(silver)
        return _commit(request, files, staged, updates=updates, rebuilt=reason, doubled=len(doubled))

    with discarding_on_failure(silver, staged):
        return _until_committed(request, once)


def _refuse_doubled(request: MergeRequest, doubled: DoubledKeys) -> None:
    """Report keys that occur in several snapshot rows and that no change names.

    Before the horizon, later changes may still show that such a key moved between rows during the read.

    :raises StateDamaged: changes have passed the horizon.
    """
    if not len(doubled):
        return
    where, key = request.bronze.location, ", ".join(request.silver.key)
    if request.passed:
        raise StateDamaged(
            f"{where}: {len(doubled):,} key(s) ({key}) stand in several rows of snapshot {request.snapshot}, "
            "and no change explains it: two rows of the source have become one key on the way, or the key "
            "does not identify a row. Silver is unchanged. Look for the key in the source; name columns "
            "that identify a row with key=, or take a new snapshot with mssql_cdc_bootstrap(resnapshot=True)"
        )
    log.warning(
        "%s: %d key(s) (%s) stand in several rows of snapshot %s; of each the largest stamp is kept",
        *(where, len(doubled), key, request.snapshot),
    )


def _until_committed(request: MergeRequest, once: Callable[[], MergeCommit]) -> MergeCommit:
    """Retry when another commit came first, unless it moved the position."""
    silver = request.silver

    def on_the_position() -> MergeCommit:
        if silver.position != request.decided_on:
            raise SilverMoved(f"{silver.location}: another merge was first")
        return once()

    what = f"merge of {request.bronze.location} into {silver.location}"
    return until_committed(on_the_position, what=what, reload=silver.reload)


def _commit(
    request: MergeRequest,
    removed: Sequence[StoredFile],
    staged: Sequence[StagedFile],
    *,
    updates: KeyUpdates | None = None,
    rebuilt: str | None = None,
    doubled: int | None = None,
) -> MergeCommit:
    """Commit on the position; the number of doubled keys is kept unless this is a rebuild."""
    silver, before = request.silver, current_files(request.silver)
    if doubled is None:
        doubled = request.decided_on.doubled if request.decided_on else 0
    kept = sum(file.rows for file in before) - sum(file.rows for file in removed)
    merged = MergeCommit(
        version=silver.version + 1,
        rows=kept + sum(file.rows for file in staged),
        position=position_of(request.bronze, request.snapshot, doubled=doubled),
        counts=MergeCounts(
            changed_keys=0 if updates is None else len(updates.keys),
            inserted=0 if updates is None else updates.inserted,
            updated=0 if updates is None else updates.updated,
            deleted=0 if updates is None else updates.deleted,
            files_added=len(staged),
            files_removed=len(removed),
            files_kept=len(before) - len(removed),
            bytes_added=sum(file.size for file in staged),
        ),
        rebuilt=rebuilt,
    )
    adds = actions_just_staged(silver, staged)
    actions: list[AddAction | RemoveAction] = [*remove_actions(removed), *adds]
    silver.commit(actions, merged.position, user_metadata=merged.user_metadata(request.run_id))
    return merged


def update_silver(
    request: MergeRequest, decision: Rebuild | MergeSince | UpToDate, *, confirm_empty: Callable[[], None]
) -> MergeCommit:
    """Bring silver to the version of bronze on which the decision was made.

    Falls back to a rebuild when bronze can no longer list the changes since silver's position.

    :param confirm_empty: called before a non-empty silver becomes empty; raises to prevent that.
    :raises SilverMoved: another merge committed first.
    :raises StateDamaged: another tool removed rows of bronze since silver's position.
    """
    silver = request.silver
    if isinstance(decision, UpToDate):
        return _as_it_is(silver)
    if added := silver.take_on_columns(request.bronze):
        log.info("%s: added column(s) %s", silver.location, ", ".join(added))
    if isinstance(decision, MergeSince):
        try:
            return merge_changes(request, since=decision.version)
        except LogForgotten as exc:
            decision = Rebuild(f"of what came into bronze since version {decision.version}, {exc}")
    log.info("%s is rebuilt from bronze: %s", silver.location, decision.reason)
    return rebuild(request, reason=decision.reason, confirm_empty=confirm_empty)


def _as_it_is(silver: Silver) -> MergeCommit:
    position, files = silver.position, current_files(silver)
    assert position is not None
    counts = MergeCounts(files_kept=len(files))
    return MergeCommit(silver.version, sum(file.rows for file in files), position, counts)


@dataclass(frozen=True, slots=True)
class FilesSince:
    """The files that commits since a version added and removed, decoded, each once.

    :param added: files with new rows.
    :param withdrawn: files whose rows existed before and were removed, as by a repair.
    :param rows: rows in ``added``, by the log; a file without statistics counts as 0.
    :param oldest: time of the first of these commits, by its writer's clock; None if no commit added or
        removed rows.
    """

    added: tuple[str, ...]
    withdrawn: tuple[str, ...] = ()
    rows: int = 0
    oldest: datetime | None = None


def files_since(bronze: Bronze, version: int) -> FilesSince:
    """Return files with rows that later versions, up to the handle's, added or removed.

    These are the files of actions with ``dataChange``. Files replaced by a later repair are excluded; the
    repair's own files are returned. A file removed by an OPTIMIZE is read while it exists; after VACUUM the
    files that the OPTIMIZE wrote are read.

    :raises LogForgotten: a commit in between, or a file, is gone.
    :raises StateDamaged: another tool removed rows in between.
    """
    storage = TableStorage(bronze.location)
    history, infos, removing = _Moves(), list[dict[str, Any]](), set[int]()
    oldest: datetime | None = None
    for number in range(version + 1, bronze.version + 1):
        actions = _actions(storage, number)
        info = {**next(iter(_of(actions, "commitInfo")), {}), "version": number}
        infos.append(info)
        if info.get(EVENT_KEY) == FOLD_EVENT:
            continue  # silver has merged the rows that it took out (ADR 25)
        if history.follow(actions) and oldest is None and "timestamp" in info:
            oldest = datetime.fromtimestamp(info["timestamp"] / 1000, UTC)
        if removes_rows(actions):
            removing.add(number)
    _refuse_removal(bronze, first_removal(infos[::-1], removing.__contains__))
    added = dict.fromkeys(path for each in history.added for path in history.readable(each, storage))
    if gone := [path for path in history.withdrawn if storage.size(path) is None]:
        raise LogForgotten(f"file {gone[0]}, whose rows were taken out, is gone")
    rows = sum(history.added.values())
    return FilesSince(tuple(added), tuple(history.withdrawn), rows=rows, oldest=oldest)


def _refuse_removal(bronze: Bronze, removal: dict[str, Any] | None) -> None:
    """Refuse foreign removals, including those before a package that records them."""
    snapshot = bronze.state.snapshot
    if removal is not None and snapshot is not None:
        Thinned(snapshot, removal["version"], removal.get("operation")).refuse(bronze.location, snapshot)


class _Moves:
    """Files that added rows, and the files into which an OPTIMIZE has moved them."""

    def __init__(self) -> None:
        self.added: dict[str, int] = {}
        self.withdrawn: dict[str, None] = {}
        self.moved: dict[str, list[str]] = {}

    def follow(self, actions: list[dict[str, Any]]) -> bool:
        """Process one commit; return whether it added or removed rows."""
        adds, removes = _of(actions, "add"), _of(actions, "remove")
        rearranged = [unquote(add["path"]) for add in adds if not add.get("dataChange", True)]
        for remove in removes:
            path = unquote(remove["path"])
            if remove.get("dataChange", True):
                if self.added.pop(path, None) is None:
                    self.withdrawn[path] = None
            else:
                self.moved[path] = rearranged
        brought = [add for add in adds if add.get("dataChange", True)]
        self.added.update((unquote(add["path"]), _records(add)) for add in brought)
        return bool(brought) or any(remove.get("dataChange", True) for remove in removes)

    def readable(self, path: str, storage: TableStorage) -> Iterator[str]:
        if storage.size(path) is not None:
            yield path
        elif path in self.moved:
            for moved in self.moved[path]:
                yield from self.readable(moved, storage)
        else:
            raise LogForgotten(f"file {path}, which brought rows, is gone")


def _records(add: dict[str, Any]) -> int:
    return int(json.loads(add.get("stats") or "{}").get("numRecords") or 0)


def _of(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if kind in action]


def _actions(storage: TableStorage, version: int) -> list[dict[str, Any]]:
    actions = commit_actions(storage, version)
    if actions is None:
        raise LogForgotten(f"its log no longer holds version {version}")
    return actions
