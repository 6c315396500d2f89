"""Guards of silver: the choice of rows, its merge, rebuild and position."""

from __future__ import annotations

from tests.mutants.mutant import MODULE, Mutant

MERGE, POSITION, COSTS = (f"tests/unit/lake/silver/test_{name}.py" for name in ("merge", "position", "costs"))

STATE_RULE, RULE_VERSION, DOUBLED, WIDE = (
    f"tests/unit/lake/silver/test_{name}.py"
    for name in ("state_rule", "rule_version", "doubled", "wide_rows")
)
SILVER_KEY = "tests/unit/planning/test_silver_key.py"

MUTANTS = (
    Mutant(
        "P5 silver drops the keys that have gone",
        MODULE,
        "ADDS = (INSERT, AFTER)",
        "ADDS = (INSERT, AFTER, BEFORE)",
        f"{MERGE}::test_each_order_of_changes_leaves_what_the_source_has",
    ),
    Mutant(
        "silver: the image removed last is compared with the one added last",
        "presence",
        "Presence.AS_BEFORE if same_image else Presence.THERE",
        "Presence.AS_BEFORE",
        f"{STATE_RULE}::test_a_key_that_passes_from_row_to_row_is_kept",
    ),
    Mutant(
        "silver: large objects, which before-images leave out, are not compared",
        "KeyImages._contest",
        "is_large(field)",
        "False",
        f"{STATE_RULE}::test_a_key_that_passes_from_row_to_row_is_kept",
    ),
    Mutant(
        "silver: a change row counts once",
        "_Commits._reduce",
        "different.group_by(different.column_names, use_threads=False).aggregate([])",
        "different",
        f"{STATE_RULE}::test_a_key_that_passes_from_row_to_row_is_kept",
    ),
    Mutant(
        "silver: a key that commits leave open is looked up below them",
        "_decide",
        "verdict is not Presence.AS_BEFORE",
        "True",
        f"{STATE_RULE}::test_a_key_that_passes_from_row_to_row_is_kept",
    ),
    Mutant(
        "silver: of snapshot rows that share a key the largest stamp is kept",
        "_largest_stamps",
        "max(stamps[position], stamp)",
        "min(stamps[position] or stamp, stamp)",
        f"{DOUBLED}::test_of_rows_that_share_a_key_the_largest_stamp_is_kept",
    ),
    Mutant(
        "silver: past the horizon a key that stands twice is damage",
        "_refuse_doubled",
        "request.passed",
        "False",
        f"{DOUBLED}::test_past_the_horizon_a_key_that_no_change_names_is_damage",
    ),
    Mutant(
        "silver: rows that an older rule made are built again",
        "decide_merge",
        "position.rule != STATE_RULE",
        "False",
        f"{RULE_VERSION}::test_silver_of_an_older_rule_is_built_again_once",
    ),
    Mutant(
        "silver: a position that a package without a rule moved is noticed",
        "_read_rule",
        "applied_to != version",
        "False",
        f"{RULE_VERSION}::test_a_position_that_a_package_without_a_rule_has_moved_is_noticed",
    ),
    Mutant(
        "silver: keys that a withdrawn row named are looked at again",
        "KeyImages._refuse_unfounded",
        "withdrawn is None",
        "True",
        f"{POSITION}::test_a_key_that_rows_named_which_a_repair_took_out_is_looked_at_again",
    ),
    Mutant(
        "silver: a file without statistics is not taken for empty",
        "current_files",
        "storage.footer(file.path).num_rows",
        "0",
        f"{POSITION}::test_a_silver_whose_log_tells_no_row_counts_is_not_taken_for_empty",
    ),
    Mutant(
        "silver: a key that no unique index keeps apart is refused",
        "refuse_uncertain_key",
        "keys.key_to_check and KEY_MAY_REPEAT not in allow",
        "False",
        f"{SILVER_KEY}::test_a_key_that_no_unique_index_keeps_apart_is_refused_unless_allowed",
    ),
    Mutant(
        "silver: a key of rows that bronze cannot tell apart is refused",
        "refuse_uncertain_key",
        "index is not None and KEY_MAY_MOVE_UNSEEN not in allow",
        "False",
        f"{SILVER_KEY}::test_a_key_of_rows_that_bronze_cannot_tell_apart_is_refused_unless_allowed",
    ),
    Mutant(
        "silver: an image that is read again comes once",
        "KeyImages.read_again",
        "position not in given",
        "True",
        f"{WIDE}::test_images_that_are_read_again_are_those_that_would_be_held",
    ),
    Mutant(
        "silver: images that do not fit are not kept",
        "LatestRows._reduce",
        "self._grew_too_large(rows, deciding)",
        "False",
        f"{WIDE}::test_images_that_are_read_again_are_those_that_would_be_held",
    ),
    Mutant(
        "silver: a batch of wide rows is bounded in bytes",
        "_bounded",
        "max(1, min(BATCH_ROWS, int(BATCH_BYTES / max(stored, row_bytes, 1))))",
        "BATCH_ROWS",
        f"{WIDE}::test_a_batch_is_bounded_in_bytes",
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
        "KeyImages.__init__",
        "changed_files(bronze, self._above)",
        "changed_files(bronze, self._above)[:1]",
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
        "silver: a row without a key is refused",
        "_named",
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
        "overtaken=False",
        "overtaken=True",
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
        "actions is None",
        "False",
        f"{POSITION}::test_a_version_that_the_log_no_longer_holds_is_made_good_by_a_rebuild_that_says_so",
    ),
    Mutant(
        "silver: a RESTORE that took rows back is made good by a rebuild",
        "Silver._take",
        "restore_below_ours(down_to_ours(table)) if self.position else None",
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
    Mutant(
        "silver: changes that wait are merged once they are old",
        "_too_few",
        "waiting.rows >= wanted or order.started_at >= due",
        "waiting.rows >= wanted",
        "tests/unit/jobs/test_merge_silver.py::test_few_changes_are_left_to_a_later_merge_until_they_are_many_or_old",
    ),
    Mutant(
        "silver: a repair is not left to a later merge",
        "_too_few",
        "waiting.withdrawn or waiting.oldest is None",
        "waiting.oldest is None",
        "tests/unit/jobs/test_merge_silver.py::test_neither_a_new_silver_nor_a_repair_is_left_to_a_later_merge",
    ),
)
