"""Rows of bronze that another tool removed or rewrote."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

THINNED = "tests/unit/jobs/test_thinned.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "thinned bronze: it is noticed when bronze is opened",
        "noticed",
        "removal is None",
        "True",
        f"{THINNED}::test_a_silver_is_not_built_from_a_bronze_that_was_thinned",
    ),
    Mutant(
        "thinned bronze: silver is refused",
        "_merge_once",
        "bronze.refuse_thinned(snapshot)",
        "pass",
        f"{THINNED}::test_a_silver_is_not_built_from_a_bronze_that_was_thinned",
    ),
    Mutant(
        "thinned bronze: the next commit records it",
        "Bronze.noticed_transactions",
        "self._noticed.transactions() if self._noticed else ()",
        "()",
        f"{THINNED}::test_later_commits_and_a_cleaned_log_do_not_forget_it",
    ),
    Mutant(
        "thinned bronze: versions that silver has not merged are asked",
        "files_since",
        "_refuse_removal(bronze, first_removal(infos[::-1], removing.__contains__))",
        "pass",
        f"{THINNED}::test_a_thinned_bronze_that_an_earlier_package_went_over_is_not_merged_from",
    ),
    Mutant(
        "thinned bronze: a resnapshot is above all that may be missing",
        "record_snapshot",
        "bronze.newest",
        "bronze.state.newest",
        f"{THINNED}::test_a_resnapshot_waits_for_an_lsn_above_all_that_was_removed",
    ),
    Mutant(
        "thinned bronze: a RESTORE to the version before undoes it",
        "first_removal",
        "version > in_force or COMMIT_KEY in commit or EVENT_KEY in commit",
        "COMMIT_KEY in commit or EVENT_KEY in commit",
        f"{THINNED}::test_a_restore_to_the_version_before_undoes_it",
    ),
    Mutant(
        "thinned bronze: an OPTIMIZE is no removal",
        "removes_rows",
        "action['remove'].get('dataChange', True)",
        "True",
        f"{THINNED}::test_optimize_properties_and_our_own_repairs_are_no_removals",
    ),
    Mutant(
        "thinned bronze: a mended one is merged from",
        "Thinned.refuse",
        "snapshot <= self.position",
        "True",
        f"{THINNED}::test_a_resnapshot_mends_it",
    ),
    Mutant(
        "rewritten bronze: INT96 is read in microseconds",
        "parquet_file",
        "pq.ParquetFile(opened, coerce_int96_timestamp_unit='us')",
        "pq.ParquetFile(opened)",
        "tests/unit/jobs/test_spark_rewrites.py"
        "::test_a_repair_over_rows_that_spark_rewrote_keeps_times_that_nanoseconds_cannot_hold",
    ),
    Mutant(
        "thinned bronze: rows of an abandoned snapshot are our own removal",
        "first_removal",
        "version > in_force or COMMIT_KEY in commit or EVENT_KEY in commit",
        "version > in_force or COMMIT_KEY in commit",
        f"{THINNED}::test_rows_of_an_abandoned_snapshot_that_we_delete_are_no_removal_by_another_tool",
    ),
)
