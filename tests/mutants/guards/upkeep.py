"""Guards of upkeep."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

UPKEEP = "tests/unit/jobs/test_upkeep.py"
FOLD = "tests/unit/jobs/test_fold.py"
LAKE = "tests/unit/lake/test_fold.py"
PLANNING = "tests/unit/planning/test_upkeep.py"

MUTANTS = (
    Mutant(
        "upkeep: files are joined on a version that still has all of them",
        "replace_files",
        "[file.logged for file in removed if file.logged not in there]",
        "[]",
        f"{UPKEEP}::test_files_that_a_repair_takes_out_meanwhile_are_chosen_anew",
    ),
    Mutant(
        "upkeep: joined files say that no row changed",
        "_write_again",
        "data_change=False",
        "data_change=True",
        f"{UPKEEP}::test_the_log_says_that_no_row_changed",
    ),
    Mutant(
        "upkeep: a silver whose rows do not match its position is left to the merge",
        "_refuse_damaged",
        "(damage := silver.damage) is not None",
        "False and (damage := silver.damage) is not None",
        f"{UPKEEP}::test_a_silver_that_was_restored_is_left_to_the_merge",
    ),
    Mutant(
        "upkeep: a large file is not written again for little",
        "_worth_it",
        "sizes[largest] <= sum(sizes[index] for index in group) - sizes[largest]",
        "True",
        f"{PLANNING}::test_few_small_files_are_left_and_a_row_is_seldom_written_again",
    ),
    Mutant(
        "upkeep: bronze keeps the files that silver continues from",
        "_cleaning",
        "version_to_keep(bronze, silver)",
        "None",
        f"{UPKEEP}::test_a_silver_that_is_behind_finds_what_a_repair_took_out",
    ),
    Mutant(
        "upkeep: staged files that a task may still commit are kept",
        "is_dead_in_bronze.is_dead",
        "snapshot is not None and of[1] <= snapshot.text",
        "True",
        f"{UPKEEP}::test_files_that_left_are_removed_and_staged_ones_of_live_tasks_are_kept",
    ),
    Mutant(
        "fold: nothing leaves that silver has not merged",
        "_taken_out",
        "_refuse_unmerged(request, [file for file in files if file.logged not in merged])",
        "None",
        f"{FOLD}::test_a_fold_that_could_lose_something_is_not_made",
    ),
    Mutant(
        "fold: nothing that came meanwhile is below it",
        "_commit.once",
        "_refuse_unmerged(request, [file for file in files if file.logged not in known])",
        "None",
        f"{LAKE}::test_what_would_make_the_fold_wrong_meanwhile_ends_it",
    ),
    Mutant(
        "fold: another snapshot was completed meanwhile",
        "_commit.once",
        "state.snapshot != older or state.unfinished is not None",
        "False",
        f"{LAKE}::test_what_would_make_the_fold_wrong_meanwhile_ends_it",
    ),
    Mutant(
        "fold: coverage began again meanwhile",
        "_commit.once",
        "coverage is None or state.coverage is None or state.coverage.base != coverage.base",
        "False",
        f"{LAKE}::test_what_would_make_the_fold_wrong_meanwhile_ends_it",
    ),
    Mutant(
        "fold: the state is that at its LSN",
        "KeyImages.__init__",
        "None if until is None else until.text",
        "None",
        f"{LAKE}::test_the_snapshot_is_the_state_at_its_lsn_and_later_changes_stay",
    ),
    Mutant(
        "fold: younger changes of a file stay",
        "_stays",
        "pc.and_(changes, pc.greater(batch.column('_start_lsn'), above.text))",
        "pc.and_(changes, pc.less(batch.column('_start_lsn'), ''))",
        f"{FOLD}::test_a_fold_keeps_the_younger_changes_of_a_file_that_holds_both",
    ),
    Mutant(
        "fold: a silver that has merged it goes on",
        "files_since",
        "info.get(EVENT_KEY) == FOLD_EVENT",
        "False",
        f"{FOLD}::test_silver_goes_on_when_what_a_fold_took_out_is_removed",
    ),
    Mutant(
        "fold: a silver that has not merged it is rebuilt",
        "_continues",
        "fold.version <= position.version",
        "True",
        f"{PLANNING}::test_a_silver_goes_on_after_a_fold_of_what_it_has_merged",
    ),
    Mutant(
        "fold: a resnapshot read below it is superseded",
        "_is_settled",
        "refuse_folded(bronze, outcome.snapshot, run=outcome.plan.run)",
        "None",
        f"{FOLD}::test_a_resnapshot_read_below_a_fold_is_superseded",
    ),
    Mutant(
        "fold: not before the horizon",
        "_fold_request",
        "not past.passed",
        "False",
        f"{FOLD}::test_a_fold_before_the_horizon_is_not_made",
    ),
    Mutant(
        "fold: the snapshot that it writes is no bootstrap",
        "_event_of",
        "bronze.fold is not None",
        "False",
        f"{FOLD}::test_a_load_that_runs_again_finds_the_fold_and_writes_no_bootstrap_row",
    ),
    Mutant(
        "facts: the newest row of each table and event stays",
        "_is_doomed",
        "event in TRIMMED and written_at < before and written_at < newest[target, event]",
        "event in TRIMMED and written_at < before",
        f"{UPKEEP}::test_old_facts_of_daily_events_go_and_the_newest_of_each_table_stays",
    ),
)
