"""Guards of silver: the choice of rows, its merge, rebuild and position."""

from __future__ import annotations

from tests.mutants.mutant import MODULE, Mutant

MERGE, POSITION, COSTS = (f"tests/unit/lake/silver/test_{name}.py" for name in ("merge", "position", "costs"))

MUTANTS = (
    Mutant(
        "P5 silver drops the keys that have gone",
        MODULE,
        "GONE = (DELETE, BEFORE)",
        "GONE = (DELETE,)",
        f"{MERGE}::test_each_order_of_changes_leaves_what_the_source_has",
    ),
    Mutant(
        "silver: rows of a key in order of commit, command, sequence, operation",
        MODULE,
        "ORDER = ('_start_lsn', '_command_id', '_seqval', '_operation')",
        "ORDER = ('_start_lsn', '_seqval', '_command_id', '_operation')",
        f"{MERGE}::test_each_order_of_changes_leaves_what_the_source_has",
    ),
    Mutant(
        "silver: an image is the latest of all changes, not of the new ones",
        "latest_images",
        "changed_files(bronze, above)",
        "changed_files(bronze, above)[:1]",
        f"{MERGE}::test_a_late_window_brings_no_deleted_key_back",
    ),
    Mutant(
        "silver: a change at or below the snapshot names no key",
        "merge_changes",
        "request.snapshot",
        "Lsn(1)",
        f"{MERGE}::test_rows_below_the_snapshot_name_no_key",
    ),
    Mutant(
        "silver: a row that is later than its key's last change stays",
        "Overlay._compared",
        "pc.greater(rows.column('_start_lsn'), pc.take(self._lsns, positions))",
        "pc.equal(pc.take(self._lsns, positions), '')",
        f"{MERGE}::test_a_row_of_a_chunk_is_kept_where_it_is_later_than_its_keys_last_change",
    ),
    Mutant(
        "silver: a row without a key is refused",
        "named_keys",
        "_refuse_nulls(rows, key, where=str(bronze.location))",
        "pass",
        f"{MERGE}::test_a_key_that_is_null_in_a_change_row_is_refused",
    ),
    Mutant(
        "silver: the position moves by compare-and-set",
        "_until_committed.on_the_position",
        "silver.position != request.decided_on",
        "False",
        f"{POSITION}::test_of_two_merges_one_wins_and_nothing_is_doubled",
    ),
    Mutant(
        "silver: a merge is committed on the version that it was worked out on",
        "Silver.commit",
        "max_commit_retries=0",
        "max_commit_retries=15",
        f"{POSITION}::test_of_two_merges_one_wins_and_nothing_is_doubled",
    ),
    Mutant(
        "silver: a rebuild empties it when the source is empty and not otherwise",
        "rebuild.once",
        "not staged and any((file.rows for file in current_files(silver)))",
        "False",
        f"{POSITION}::test_a_rebuild_that_would_empty_a_filled_silver_asks_the_source_first",
    ),
    Mutant(
        "silver: a newer snapshot replaces every row",
        "decide_merge",
        "position.snapshot != snapshot",
        "False",
        f"{POSITION}::test_a_newer_snapshot_replaces_every_row_in_one_commit",
    ),
    Mutant(
        "silver: versions of another bronze are not counted on",
        "decide_merge",
        "position.bronze != bronze",
        "False",
        f"{POSITION}::test_a_bronze_that_was_made_anew_at_the_same_place_is_noticed",
    ),
    Mutant(
        "silver: rows that an OPTIMIZE moved before they were merged are found",
        "_Moves.follow",
        "self.moved[path] = rearranged",
        "self.added.pop(path, None)",
        f"{POSITION}::test_rows_that_were_optimized_before_they_were_merged_are_merged",
    ),
    Mutant(
        "silver: what bronze's log has forgotten is made good by a rebuild",
        "_actions",
        "storage.size(name) is None",
        "False",
        f"{POSITION}::test_a_version_that_the_log_no_longer_holds_is_made_good_by_a_rebuild_that_says_so",
    ),
    Mutant(
        "silver: a RESTORE that took rows back is made good by a rebuild",
        "Silver._take",
        "restore_below_ours(table) if self.position else None",
        "None",
        f"{POSITION}::test_a_restore_that_took_silvers_rows_back_is_noticed",
    ),
    Mutant(
        "silver: one table belongs to one source",
        "refuse_foreign",
        "silver.identity != bronze.identity",
        "False",
        f"{POSITION}::test_a_silver_of_another_source_is_refused",
    ),
    Mutant(
        "silver: a key whose seventh digit was cut is refused",
        "_is_cut",
        "cut and column.lake.data_type.startswith('timestamp')",
        "False",
        "tests/unit/planning/test_silver_key.py::test_a_key_whose_digits_are_cut_is_refused",
    ),
    Mutant(
        "silver: it says that it is the source when changes have passed the horizon",
        "consistency",
        "stamp.lsn > horizon.lsn and stamp.time > needed",
        "stamp.lsn > horizon.lsn",
        "tests/unit/planning/test_horizon.py::test_both_the_lsn_and_the_time_have_to_be_passed",
    ),
    Mutant(
        "silver: a merge opens the files that can hold its keys and no others",
        "outdated_files",
        "keys.may_be_within(file.bounds)",
        "True",
        f"{COSTS}::test_files_that_cannot_hold_a_changed_key_are_not_even_opened",
    ),
)
