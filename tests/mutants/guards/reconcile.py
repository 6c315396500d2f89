"""Guards of a reconcile."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

JOB = "tests/unit/jobs/test_reconcile.py"
MEANWHILE = "tests/unit/jobs/test_reconcile_meanwhile.py"
JUDGE = "tests/unit/planning/test_reconcile.py"

MUTANTS = (
    Mutant(
        "reconcile: a key that a change names is not plainly equal",
        "_plainly_equal",
        "pc.and_not(pc.is_in(codes, value_set=once), pc.is_in(codes, value_set=_codes(changes, keys)))",
        "pc.is_in(codes, value_set=once)",
        f"{JOB}::test_a_key_that_changed_meanwhile_has_to_be_right_in_silver_too",
    ),
    Mutant(
        "reconcile: every column counts",
        "_plainly_equal",
        "pc.and_(plain, same)",
        "plain",
        f"{JOB}::test_a_fault_in_silver_is_found_at_its_key_and_no_other",
    ),
    Mutant(
        "reconcile: keys that were looked up and not found are judged",
        "compare",
        "{**open_keys, **read}",
        "read",
        f"{JOB}::test_a_row_that_was_added_to_silver_is_found_by_looking_its_key_up",
    ),
    Mutant(
        "reconcile: silver's row of a changed key is judged",
        "_judge_key",
        "(kind := judge.compare(silver, expected)) is not None",
        "False",
        f"{JOB}::test_a_key_that_changed_meanwhile_has_to_be_right_in_silver_too",
    ),
    Mutant(
        "reconcile: a transaction that takes back what it added leaves what was before",
        "Judge._after",
        "frozenset(None if state is None else Possible(added[-1].image) for state in before)",
        "frozenset([None])",
        f"{JUDGE}::test_what_a_transaction_added_and_removed_itself_leaves_what_was_before",
    ),
    Mutant(
        "reconcile: before-images lack large objects",
        "Judge._is",
        "row == state.image if state.whole else self._small(row) == self._small(state.image)",
        "row == state.image",
        f"{JUDGE}::test_large_objects_are_not_compared_with_before_images",
    ),
    Mutant(
        "reconcile: nothing is compared before silver has passed the read",
        "reconcile_item",
        "silver.position.changes < read.until",
        "False",
        f"{JOB}::test_a_comparison_waits_for_the_merge_when_changes_are_there_already",
    ),
    Mutant(
        "reconcile: keys are hashed",
        "_fail",
        "comparison.show_keys",
        "True",
        f"{JOB}::test_keys_are_hashed_unless_they_are_to_be_shown",
    ),
    Mutant(
        "reconcile: each part of silver's keys has its turn",
        "plan_reconcile",
        "reports.samples() % buckets",
        "0",
        f"{MEANWHILE}::test_each_part_of_a_small_table_s_keys_has_its_turn",
    ),
    Mutant(
        "reconcile: keys are looked up in the order of silver's key",
        "read_item",
        "_looked_up(session, source, silver.key, keys, label=order.label)",
        "_looked_up(session, source, tuple(sorted(silver.key)), keys, label=order.label)",
        f"{MEANWHILE}::test_keys_are_looked_up_in_the_order_of_silver_s_key",
    ),
    Mutant(
        "reconcile: only old files are removed as left over",
        "ReconcileTable.remove_leftovers",
        "self._storage.names('read-', before=datetime.now(UTC) - LEFT_OVER_AFTER)",
        "self._storage.names('read-')",
        f"{MEANWHILE}::test_rows_that_a_killed_try_has_read_are_removed_once_they_are_old",
    ),
    Mutant(
        "reconcile: a repair that silver has not merged is waited for",
        "reconcile_item",
        "came_since(bronze.reload().table, silver.position.version, 'repair')",
        "not bronze.reload()",
        f"{MEANWHILE}::test_a_repair_that_silver_has_not_merged_is_waited_for",
    ),
    Mutant(
        "reconcile: a fold above the read has it read again",
        "_lowest_compared",
        "max(silver.position.snapshot, coverage.base)",
        "silver.position.snapshot",
        f"{MEANWHILE}::test_a_fold_above_the_read_has_it_read_again",
    ),
)
