"""One commit for a snapshot, whoever else commits in the meantime; tables of (before, between, expected)."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError

from airflow_provider_mssql_cdc.errors import CommitConflict, ForeignTable, SourceObjectMissing, Superseded
from airflow_provider_mssql_cdc.lake.bronze import open_existing
from airflow_provider_mssql_cdc.lake.delta_table import until_committed
from airflow_provider_mssql_cdc.lake.facts import has_facts, write_facts
from airflow_provider_mssql_cdc.lake.staged_files import remove_losers
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import coverage_transactions, lsn_transactions
from airflow_provider_mssql_cdc.model.facts import FactsRow, facts_identifier
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import ReadHorizon, StagedFile
from airflow_provider_mssql_cdc.model.state import BronzeState, Coverage, SourceIdentity
from tests.unit.lake.tables import (
    COMMIT_TS,
    IDENTITY,
    OTHER_RUN,
    RUN,
    complete,
    ids_in,
    lsn,
    new_bronze,
    reopened,
    rows_of,
    stage,
)

OLD, NEW, NEWER = lsn(5), lsn(9), lsn(12)


class WhileFilesAreLookedAt(tuple[StagedFile, ...]):
    """Staged files during whose check, after the decision and before the commit, something happens."""

    meanwhile: Callable[[], object] | None = None
    looks = 0

    def __iter__(self) -> Iterator[StagedFile]:
        self.looks += 1
        if self.looks > 1 and (meanwhile := self.meanwhile):
            self.meanwhile = None
            meanwhile()
        return super().__iter__()


def interrupted(files: tuple[StagedFile, ...], meanwhile: Callable[[], object]) -> WhileFilesAreLookedAt:
    waiting = WhileFilesAreLookedAt(files)
    waiting.meanwhile = meanwhile
    return waiting


def record(location: TableLocation, transactions: list[Transaction]) -> None:
    """A commit without files, as a chunked open or a changes window without rows makes it."""
    table = DeltaTable(location.uri)
    table.create_write_transaction(
        [],
        mode="append",
        schema=table.schema(),
        commit_properties=CommitProperties(app_transactions=transactions),
    )


def test_the_first_snapshot_brings_rows_position_and_coverage_in_one_commit(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, OLD, [1, 2]) + stage(bronze, OLD, [3])
    done = complete(bronze.location, OLD, files)
    assert (done.snapshot, done.version, done.rows, done.added, done.rebased) == (OLD, 1, 3, True, False)
    assert reopened(bronze).state == BronzeState(1, snapshot=OLD, coverage=Coverage(OLD, OLD))
    assert ids_in(bronze.location) == [1, 2, 3]
    info = DeltaTable(bronze.location.uri).history(1)[0]
    assert json.loads(info["userMetadata"]) == {
        "snapshot": "dbo_orders",
        "lsn": OLD.text,
        "commit_ts": "2024-05-11T02:00:00.277000+00:00",
        "rows": 3,
        "run_id": "manual__2024-05-11",
    }


def test_every_row_carries_what_it_was_read_under(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD, [7]))
    (row,) = rows_of(bronze.location)
    assert {name: value for name, value in row.items() if name.startswith("_")} == {
        "_capture_instance": "dbo_orders",
        "_start_lsn": OLD.text,
        "_seqval": None,
        "_operation": 0,
        "_command_id": None,
        "_commit_ts": COMMIT_TS.replace(tzinfo=None),
        "_batch_id": None,
        "_snapshot": OLD.text,
        "_chunk": None,
    }


def test_an_empty_table_leaves_its_trace(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    done = complete(bronze.location, OLD, [])
    assert (done.rows, done.version, done.added) == (0, 1, True)
    assert reopened(bronze).state.snapshot == OLD
    again = complete(bronze.location, OLD, [])
    assert replace(again, added=True, reason=done.reason) == done


def test_a_complete_that_is_run_again_returns_the_same_and_adds_nothing(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, OLD)
    first = complete(bronze.location, OLD, files)
    for _ in range(2):
        again = complete(bronze.location, OLD, files)
        assert not again.added
        assert (again.snapshot, again.version, again.rows) == (first.snapshot, first.version, first.rows)
        assert again.commit_ts == COMMIT_TS
    assert reopened(bronze).version == 1
    assert ids_in(bronze.location) == [1, 2, 3]


def test_what_is_stored_is_told_after_optimize_and_when_the_log_has_forgotten(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD, [1, 2, 3]))
    complete(bronze.location, NEW, stage(bronze, NEW, [1, 2]), resnapshot=True)
    table = DeltaTable(bronze.location.uri)
    table.optimize.compact()
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 0 days"})
    DeltaTable(bronze.location.uri).create_checkpoint()
    DeltaTable(bronze.location.uri).cleanup_metadata()
    stored = complete(bronze.location, OLD, [])
    assert (stored.snapshot, stored.rows, stored.added) == (NEW, 2, False)
    assert stored.commit_ts == COMMIT_TS


def test_bronze_is_looked_at_before_any_file(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, OLD)
    complete(bronze.location, OLD, files)
    gone = [StagedFile(f"{OLD.text}-gone.parquet", 1, 1)]
    assert not complete(bronze.location, OLD, gone).added


@dataclass(frozen=True)
class Step:
    """A complete: of which S, asked for as a resnapshot or not."""

    snapshot: Lsn
    resnapshot: bool = False
    run: str = RUN


def first(snapshot: Lsn) -> Step:
    return Step(snapshot)


def again(snapshot: Lsn) -> Step:
    """A resnapshot, each by a separate run."""
    return Step(snapshot, resnapshot=True, run=snapshot.text[-8:].lower())


IDS = {OLD: [1, 2, 3], NEW: [11, 12], NEWER: [21]}


@pytest.mark.parametrize("overtaken", [False, True], ids=["one after the other", "between look and commit"])
@pytest.mark.parametrize(
    ("winner", "loser", "stored", "ids", "added"),
    [
        (first(OLD), first(OLD), OLD, [OLD], False),
        (first(OLD), first(NEW), OLD, [OLD], False),
        (first(NEW), first(OLD), NEW, [NEW], False),
        (again(NEW), first(OLD), NEW, [NEW], False),
        (first(OLD), again(NEW), NEW, [OLD, NEW], True),
        (first(NEW), again(NEW), NEW, [NEW], False),
        (again(NEWER), again(NEW), NEWER, [NEWER], False),
        (again(NEW), again(NEWER), NEWER, [NEW, NEWER], True),
    ],
)
def test_of_two_completes_the_second_to_commit_gives_way_or_is_the_newer_resnapshot(
    tmp_path: Path,
    *,
    winner: Step,
    loser: Step,
    stored: Lsn,
    ids: list[Lsn],
    added: bool,
    overtaken: bool,
) -> None:
    bronze = new_bronze(tmp_path)
    files = {
        step: stage(bronze, step.snapshot, IDS[step.snapshot], run=step.run, attempt=f"a{number}-x")
        for number, step in enumerate((winner, loser), start=1)
    }

    def run(step: Step, staged: tuple[StagedFile, ...]) -> bool:
        return complete(
            bronze.location, step.snapshot, staged, resnapshot=step.resnapshot, run=step.run
        ).added

    def run_winner() -> None:
        assert run(winner, files[winner])

    if overtaken:
        assert run(loser, interrupted(files[loser], run_winner)) is added
    else:
        run_winner()
        assert run(loser, files[loser]) is added
    assert reopened(bronze).state.snapshot == stored
    assert ids_in(bronze.location) == sorted(number for snapshot in ids for number in IDS[snapshot])


@pytest.mark.parametrize(
    ("between", "coverage"),
    [
        (Coverage(lsn(3), lsn(8)), Coverage(lsn(3), lsn(8))),
        (Coverage(lsn(3), lsn(3)), Coverage(lsn(3), lsn(3))),
        (Coverage(lsn(9), lsn(9)), Coverage(lsn(9), lsn(9))),
        (Coverage(lsn(10), lsn(10)), None),
    ],
)
def test_changes_that_were_started_meanwhile_keep_their_coverage_or_supersede(
    tmp_path: Path, between: Coverage, coverage: Coverage | None
) -> None:
    bronze = new_bronze(tmp_path)
    files = interrupted(stage(bronze, NEW), lambda: record(bronze.location, coverage_transactions(between)))
    if coverage is None:
        with pytest.raises(Superseded):
            complete(bronze.location, NEW, files)
        assert ids_in(bronze.location) == []
    else:
        assert complete(bronze.location, NEW, files).added
        assert reopened(bronze).state.coverage == coverage


def test_changes_that_extend_meanwhile_neither_conflict_nor_are_set_back(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))
    extend = lsn_transactions("mssql_cdc#changes", NEWER)
    files = interrupted(stage(bronze, NEW, [11]), lambda: record(bronze.location, extend))
    done = complete(bronze.location, NEW, files, resnapshot=True)
    assert (done.added, done.version) == (True, 3)
    assert reopened(bronze).state == BronzeState(3, snapshot=NEW, coverage=Coverage(OLD, NEWER))


def test_a_base_that_moves_above_s_meanwhile_supersedes_it(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))
    rebase = [
        *lsn_transactions("mssql_cdc#open", NEWER),
        *coverage_transactions(Coverage(NEWER, NEWER)),
    ]
    files = interrupted(stage(bronze, NEW, [11]), lambda: record(bronze.location, rebase))
    with pytest.raises(Superseded):
        complete(bronze.location, NEW, files, resnapshot=True)
    assert ids_in(bronze.location) == [1, 2, 3]


@pytest.mark.parametrize(
    ("gap", "proven_at", "coverage", "rebased"),
    [
        (False, None, Coverage(OLD, OLD), False),
        (True, None, Coverage(NEW, NEW), True),
        (True, OLD, Coverage(NEW, NEW), True),
        (True, lsn(4), Coverage(OLD, OLD), False),
    ],
)
def test_a_resnapshot_moves_coverage_only_on_a_gap_proven_for_the_position(
    tmp_path: Path, *, gap: bool, proven_at: Lsn | None, coverage: Coverage, rebased: bool
) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))
    done = complete(
        bronze.location, NEW, stage(bronze, NEW, [11]), resnapshot=True, gap=gap, gap_position=proven_at
    )
    assert done.rebased is rebased
    assert reopened(bronze).state.coverage == coverage


def test_a_gap_that_changes_have_closed_meanwhile_is_none(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))

    def rebase_first() -> None:
        complete(bronze.location, lsn(7), [], resnapshot=True, gap=True, run=OTHER_RUN)

    files = interrupted(stage(bronze, NEW, [11]), rebase_first)
    done = complete(bronze.location, NEW, files, resnapshot=True, gap=True)
    assert (done.added, done.rebased) == (True, False)
    assert reopened(bronze).state.coverage == Coverage(lsn(7), lsn(7))


def test_a_resnapshot_leaves_the_run_that_took_it(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))
    complete(bronze.location, NEW, stage(bronze, NEW, [11]), resnapshot=True, run=OTHER_RUN)
    complete(bronze.location, NEWER, stage(bronze, NEWER, [21]), resnapshot=True, run="bbbbbbbb")
    now = reopened(bronze)
    assert now.snapshot_of_run(OTHER_RUN) == NEW
    assert now.snapshot_of_run("bbbbbbbb") == NEWER
    assert now.snapshot_of_run(RUN) is None


def test_a_run_takes_one_resnapshot_whichever_of_its_plans_commits_first(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    complete(bronze.location, OLD, stage(bronze, OLD))
    earlier, later = stage(bronze, NEW, [11]), stage(bronze, NEWER, [21])
    assert complete(bronze.location, NEW, earlier, resnapshot=True).added
    remove_losers(bronze.location, run=RUN)
    kept = complete(bronze.location, NEWER, later, resnapshot=True)
    assert (kept.snapshot, kept.added, kept.event) == (NEW, False, "resnapshot")
    assert ids_in(bronze.location) == [1, 2, 3, 11]


def test_the_horizon_of_the_reads_stays_in_bronze(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    horizon = ReadHorizon(NEW, COMMIT_TS)
    done = complete(bronze.location, OLD, stage(bronze, OLD), horizon=horizon)
    assert done.horizon == complete(bronze.location, OLD).horizon == horizon


def test_one_handle_commits_once(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    state = [*lsn_transactions("mssql_cdc#snapshot", OLD), *coverage_transactions(Coverage(OLD, OLD))]
    bronze.commit([], transactions=state, event="bootstrap", user_metadata={})
    with pytest.raises(CommitFailedError):
        bronze.commit([], transactions=state, event="bootstrap", user_metadata={})
    assert bronze.reload().version == 1


@pytest.mark.parametrize(
    ("one", "other", "reloaded", "fails"),
    [
        ("a", "a", False, True),
        ("a", "a", True, False),
        ("a", "b", False, False),
    ],
)
def test_handles_conflict_where_they_share_an_app_id(
    tmp_path: Path, *, one: str, other: str, reloaded: bool, fails: bool
) -> None:
    first_handle, second_handle = new_bronze(tmp_path), new_bronze(tmp_path)
    first_handle.commit([], transactions=[Transaction(one, 1)], event="bootstrap", user_metadata={})
    if reloaded:
        second_handle.reload()
    if fails:
        with pytest.raises(CommitFailedError):
            second_handle.commit(
                [], transactions=[Transaction(other, 1)], event="bootstrap", user_metadata={}
            )
    else:
        assert (
            second_handle.commit(
                [], transactions=[Transaction(other, 1)], event="bootstrap", user_metadata={}
            )
            == 2
        )


def test_the_version_of_a_commit_is_its_own_though_others_came_before_it(tmp_path: Path) -> None:
    handle = new_bronze(tmp_path)
    for number in range(3):
        record(handle.location, [Transaction(f"x{number}", 1)])
    assert handle.commit([], transactions=[Transaction("mine", 1)], event="bootstrap", user_metadata={}) == 4


@pytest.mark.parametrize("transactions", [[Transaction("a", 1), Transaction("a", 2)], [Transaction("a", -1)]])
def test_transactions_that_delta_would_take_without_a_word_are_refused(
    tmp_path: Path, transactions: list[Transaction]
) -> None:
    with pytest.raises(ValueError, match="app ids must be distinct"):
        new_bronze(tmp_path).commit([], transactions=transactions, event="bootstrap", user_metadata={})


def test_a_commit_that_always_loses_ends_in_an_error_that_can_be_retried() -> None:
    tries = []

    def lose() -> None:
        tries.append(1)
        raise CommitFailedError("Failed to commit transaction: 15")

    with pytest.raises(CommitConflict, match="can be tried again"):
        until_committed(lose, what="test", tries=4)
    assert len(tries) == 4


def test_a_crash_between_commit_and_facts_is_made_good(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    files = stage(bronze, OLD)
    complete(bronze.location, OLD, files)  # and here the worker was killed
    facts = TableLocation(str(tmp_path / "facts"))
    identifier = facts_identifier(bronze.location.uri, "bootstrap", OLD)
    assert not has_facts(facts, identifier)
    known = complete(bronze.location, OLD, files)
    row = FactsRow(event="bootstrap", target=bronze.location.uri, rows=known.rows, snapshot=known.snapshot)
    assert write_facts(facts, row, identifier=identifier)
    assert not write_facts(facts, row, identifier=identifier)
    assert rows_of(facts, "event, rows") == [{"event": "bootstrap", "rows": 3}]


def test_a_bronze_that_is_gone_or_another_sources_is_said(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    with pytest.raises(SourceObjectMissing):
        complete(TableLocation(str(tmp_path / "gone")), OLD)
    with pytest.raises(ForeignTable):
        complete(bronze.location, OLD, identity=SourceIdentity("erp", "sales", "dbo", "lines"))


def _complete(folder: str, snapshot: Lsn, files: tuple[StagedFile, ...], run: str) -> tuple[Lsn, bool]:
    done = complete(TableLocation(folder), snapshot, files, run=run, resnapshot=run != RUN)
    return done.snapshot, done.added


def test_processes_that_complete_at_once_leave_one_first_snapshot(tmp_path: Path) -> None:
    bronze = new_bronze(tmp_path)
    staged = [stage(bronze, OLD, [1, 2, 3], attempt=f"a{number}-x") for number in range(3)]
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(_complete, bronze.location.uri, OLD, files, RUN) for files in staged * 2]
        outcomes = [future.result() for future in work]
    assert [snapshot for snapshot, _ in outcomes] == [OLD] * 6
    assert sum(added for _, added in outcomes) == 1
    assert ids_in(bronze.location) == [1, 2, 3]
    assert open_existing(bronze.location).version == 1
    assert open_existing(bronze.location).identity == IDENTITY
