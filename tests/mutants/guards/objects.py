"""Guards of which table bronze belongs to: another one of the same name is not read into it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OBJECTS = "tests/unit/jobs/test_other_object.py"
COMMITS = "tests/unit/lake/test_source_object.py"
REFUSED = f"{OBJECTS}::test_changes_and_snapshots_of_another_table_of_the_same_name_are_refused"

MUTANTS = (
    Mutant(
        "object: another table of the same name is noticed",
        "is_other_object",
        "known and state.source_object != identity.object_id",
        "False",
        REFUSED,
    ),
    Mutant(
        "object: the table that was loaded is recorded",
        "Bronze.object_transactions",
        "[Transaction(SOURCE_OBJECT, found)]",
        "[]",
        REFUSED,
    ),
    Mutant(
        "object: changes look before they read",
        "_ready",
        "bronze.check_object(source.identity)",
        "pass",
        REFUSED,
    ),
    Mutant(
        "object: plan looks, unless it was asked for a resnapshot",
        "bronze_for_snapshot",
        "bronze.check_object(source.identity)",
        "pass",
        REFUSED,
    ),
    Mutant(
        "object: a wave looks before it reads",
        "read_wave",
        "bronze.check_object(source.identity)",
        "pass",
        f"{OBJECTS}::test_a_wave_of_another_table_reads_nothing",
    ),
    Mutant(
        "object: a range looks before it reads",
        "read_range",
        "bronze.check_object(source.identity)",
        "pass",
        f"{OBJECTS}::test_a_range_and_its_completion_of_another_table_are_refused",
    ),
    Mutant(
        "object: a range of one plan comes from the table that was planned",
        "read_range",
        "refuse_object_of_plan([planned.source_object], source.identity)",
        "pass",
        f"{OBJECTS}::test_a_plan_of_one_table_is_not_read_from_the_next",
    ),
    Mutant(
        "object: and is committed as that table's alone",
        "_commit",
        "refuse_object_of_plan((each.source_object for each in plan.ranges), source.identity)",
        "pass",
        f"{OBJECTS}::test_a_plan_of_one_table_is_not_read_from_the_next",
    ),
    Mutant(
        "object: a window of the table before is not committed",
        "commit_window.once",
        "bronze.check_object(identity)",
        "pass",
        f"{COMMITS}::test_a_window_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next",
    ),
    Mutant(
        "object: a repair of the table before is not committed",
        "replace_changes.once",
        "bronze.check_object(identity)",
        "pass",
        f"{COMMITS}::test_a_repair_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next",
    ),
    Mutant(
        "object: a commit that is no resnapshot leaves the table before in place",
        "commit_snapshot.once",
        "bronze.check_object(identity)",
        "pass",
        f"{COMMITS}::test_a_snapshot_that_is_no_resnapshot_never_takes_another_tables_place",
    ),
    Mutant(
        "object: no change of the table before lies above the next one's snapshot",
        "decide_snapshot_commit",
        "refuse_changes_above(state, snapshot)",
        "pass",
        f"{COMMITS}::test_a_resnapshot_of_the_next_table_below_changes_of_the_one_before_is_refused",
    ),
    Mutant(
        "object: nor above the S at which it is opened",
        "decide_opening",
        "refuse_changes_above(state, snapshot)",
        "pass",
        f"{COMMITS}::test_a_resnapshot_of_the_next_table_below_changes_of_the_one_before_is_refused",
    ),
    Mutant(
        "object: a resnapshot of the next table begins coverage anew",
        "decide_snapshot_commit",
        "state.coverage is None or other_object or (gap and snapshot > state.coverage.changes)",
        "state.coverage is None or (gap and snapshot > state.coverage.changes)",
        f"{COMMITS}::test_a_window_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next",
    ),
    Mutant(
        "object: so does a chunked one where it is opened",
        "decide_opening",
        "state.coverage is None or other_object or (gap and snapshot > state.coverage.changes)",
        "state.coverage is None or (gap and snapshot > state.coverage.changes)",
        f"{COMMITS}::test_a_window_of_the_table_before_is_not_committed_after_a_resnapshot_of_the_next",
    ),
)
