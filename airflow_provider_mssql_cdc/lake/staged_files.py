"""Names of staged files, and removal of staged files that no commit names."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Sequence

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from airflow_provider_mssql_cdc.lake.delta_table import LakeTable, load_table, read_all, stored_files
from airflow_provider_mssql_cdc.lake.storage import TableLocation, TableStorage
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.facts import Event
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import PlanId, PlannedRange, StagedFile
from airflow_provider_mssql_cdc.model.state import SilverPosition

log = logging.getLogger(__name__)

_RUN = re.compile(r"[0-9a-f]{8}\Z")
_ATTEMPT = re.compile(r"[0-9A-Za-z]+(-[0-9A-Za-z]+)*\Z")
_PLAIN = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]*\.parquet\Z")
_CHANGE_EVENTS = ("changes", "repair")
_OF_CHANGES = re.compile(r"(?:changes|repair)-(\d{12})-")
_OF_SNAPSHOT = re.compile(r"(0x[0-9A-F]{20})-[0-9a-f]{8}-[0-9a-f]{8}-[rw]\d")
_OF_REWRITE = re.compile(r"(?:compact|trim|fold)-\d{12}-[0-9a-f]{12}-")
_OF_SILVER = re.compile(r"silver-(\d+)-([0-9a-f]{8})-")


def range_prefix(planned: PlannedRange, attempt: str) -> str:
    """Return the file name prefix of one attempt at a range: ``<S>-<run>-<plan>-r00003-<attempt>``."""
    if not _ATTEMPT.match(attempt):
        raise ValueError(f"an attempt must consist of letters, digits and single dashes, got {attempt!r}")
    return f"{planned.plan.text}-r{planned.index:05d}-{attempt}"


def wave_prefix(plan: PlanId, wave: int) -> str:
    """Return the file name prefix of one attempt at a wave: ``<S>-<run>-<plan>-w00003``.

    :param plan: a new one for each attempt.
    """
    return f"{plan.text}-w{wave:05d}"


def chunk_prefix(wave: str, chunk: int, attempt: str) -> str:
    """Return the file name prefix of a chunk: ``<wave>-c000017-<attempt>``.

    :param wave: :func:`wave_prefix`.
    """
    return f"{wave}-c{chunk:06d}-{attempt}"


def change_prefix(event: Event, batch: int, window: Window) -> str:
    """Return the file name prefix of one attempt's changes; its random suffix makes it unique."""
    if event not in _CHANGE_EVENTS:
        raise ValueError(f"event must be one of {_CHANGE_EVENTS}, got {event!r}")
    return f"{event}-{batch:012d}-{window.after}-{secrets.token_hex(6)}"


def silver_prefix(version: int, run: str) -> str:
    """Return the unique file name prefix of one attempt's silver files.

    :param version: of bronze.
    :param run: eight hex digits that identify the Airflow run.
    """
    return f"silver-{version:08d}-{run}-{secrets.token_hex(4)}"


def rewrite_prefix(part: str, version: int) -> str:
    """Return the unique file name prefix of one attempt of upkeep.

    :param part: of upkeep, in lower-case letters.
    :param version: of the table that the rows are from.
    """
    return f"{part}-{version:012d}-{secrets.token_hex(6)}"


def numbered(prefix: str, number: int) -> str:
    """Return the name of a writer's n-th file."""
    return f"{prefix}-{number}.parquet"


def is_of_snapshot(name: str, snapshot: Lsn) -> bool:
    """Return whether a read of snapshot S staged this file; False for names with a folder or an escape."""
    return _PLAIN.match(name) is not None and name.startswith(f"{snapshot.text}-")


def remove_losers(location: TableLocation, *, run: str) -> int:
    """Remove files that an Airflow run staged and that the log does not name; return how many.

    These include files of killed attempts and of an earlier try of ``plan``. Call it after the commit, or
    after another's was found: nothing of this run can be committed then.

    :param run: eight hex digits that identify the run, part of every name it staged; files of other runs are
        not touched.
    """
    if not _RUN.match(run):
        raise ValueError(f"a run must be eight hex digits, got {run!r}")
    staged_by_run = re.compile(rf"0x[0-9A-F]{{20}}-{run}-[0-9a-f]{{8}}-")
    return _remove_matching(location, "0x", lambda name: staged_by_run.match(name) is not None)


def remove_waves_losers(location: TableLocation, *, snapshot: Lsn) -> int:
    """Remove files that waves of a chunked snapshot staged, in any run, and that the log does not name.

    Call it when nothing of the snapshot can be committed anymore: it is complete or abandoned.
    """
    staged_by_waves = re.compile(rf"{snapshot.text}-[0-9a-f]{{8}}-[0-9a-f]{{8}}-w\d")
    return _remove_matching(
        location, f"{snapshot.text}-", lambda name: staged_by_waves.match(name) is not None
    )


def remove_dead_files(table: LakeTable) -> int:
    """Remove staged change files that no version of bronze names or can name; return how many."""
    newest = read_changes_state(table.table).batch
    return _remove_matching(table.location, "", lambda name: _is_change_of(name, up_to=newest))


def _is_change_of(name: str, *, up_to: int) -> bool:
    staged = _OF_CHANGES.match(name)
    return staged is not None and int(staged[1]) <= up_to


def is_dead_in_bronze(table: DeltaTable, snapshot: Lsn | None) -> Callable[[str], bool]:
    """Return a test for staged files of bronze, by name, that no commit can name any more.

    An attempt of upkeep may still run: ask for old files alone.

    :param snapshot: of bronze; a commit of the same or an older one adds nothing.
    """
    newest = read_changes_state(table).batch

    def is_dead(name: str) -> bool:
        of = _OF_SNAPSHOT.match(name)
        if of is not None:
            return snapshot is not None and of[1] <= snapshot.text
        return is_of_rewrite(name) or _is_change_of(name, up_to=newest)

    return is_dead


def is_dead_in_silver(position: SilverPosition | None) -> Callable[[str], bool]:
    """Return a test like :func:`is_dead_in_bronze` for files of silver, of any run."""

    def is_dead(name: str) -> bool:
        staged = _OF_SILVER.match(name)
        if staged is not None:
            return position is not None and int(staged[1]) <= position.version
        return is_of_rewrite(name)

    return is_dead


def is_of_rewrite(name: str) -> bool:
    """Return whether upkeep staged this file."""
    return _OF_REWRITE.match(name) is not None


def remove_orphans(table: LakeTable, *, run: str, up_to: int) -> int:
    """Remove uncommitted files that attempts of this run staged for silver; return how many.

    :param up_to: silver's position. Files staged from this bronze version or an older one cannot be
        committed anymore: their commit requires the old position.
    """

    def is_dead(name: str) -> bool:
        staged = _OF_SILVER.match(name)
        return staged is not None and staged[2] == run and int(staged[1]) <= up_to

    return _remove_matching(table.location, "silver-", is_dead)


def _remove_matching(location: TableLocation, prefix: str, is_dead: Callable[[str], bool]) -> int:
    names = TableStorage(location).names(prefix)
    return remove_unnamed(location, [name for name in names if is_dead(name)])


def remove_unnamed(location: TableLocation, names: Sequence[str]) -> int:
    """Remove those of these files that the log does not name; return how many.

    The newest version decides: a commit that seemed to fail may have succeeded. If the log cannot be read,
    nothing is removed and a warning is logged.
    """
    try:
        named = _named_by_the_log(location) if names else set()
    except (DeltaError, OSError, ValueError) as exc:
        log.warning(
            "%s: %d staged file(s) are left, because its log cannot be read: %s", location, len(names), exc
        )
        return 0
    storage = TableStorage(location)
    removed = sum(storage.discard(name) for name in names if name not in named)
    if removed:
        log.info("%s: removed %d staged file(s) that no commit names", location, removed)
    return removed


def discard(table: LakeTable, files: Sequence[StagedFile]) -> int:
    """Remove files that this process staged and that no commit can name anymore; return how many.

    Files of a commit with unknown outcome are kept: the cleanup after a later commit, or VACUUM, removes
    them.
    """
    settled = [file.path for file in files if file.path not in table.in_doubt]
    return remove_unnamed(table.location, settled)


@contextlib.contextmanager
def discarding_on_failure(table: LakeTable, files: Sequence[StagedFile]) -> Iterator[None]:
    """Call :func:`discard` when the block fails, including when a signal ends the task."""
    try:
        yield
    except BaseException:
        discard(table, files)
        raise


def missing_files(table: LakeTable) -> list[str]:
    """Return files that the handle's version names and that do not exist, decoded.

    One listing covers all files at the table's root; others are checked one by one. A path with a scheme
    belongs to another table's folder (a shallow clone) and is not checked.
    """
    storage = TableStorage(table.location)
    there = set(storage.names(""))
    return [
        file.path
        for file in stored_files(table.table)
        if file.path not in there and "://" not in file.path and storage.size(file.path) is None
    ]


def _named_by_the_log(location: TableLocation) -> set[str]:
    """Return the files of the current version, and removed files that VACUUM has not deleted yet."""
    table = load_table(location)
    current = read_all(table.get_add_actions()).column("path").to_pylist()
    # A file that was removed stays readable for older versions until VACUUM deletes it: it is not a leftover.
    taken_out = table.vacuum(retention_hours=0, dry_run=True, enforce_retention_duration=False)
    return {path.rpartition("/")[2] for path in [*current, *taken_out]}
