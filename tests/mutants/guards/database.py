"""Guards of a whole database: each table's trouble its own, and nothing told that is not so."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

JOBS = "tests/unit/jobs/test_database.py"
VALUE = "tests/unit/test_database.py"
PACKS = "tests/unit/planning/test_packs.py"
TRACKED = "tests/unit/model/test_tracked.py"
PIPELINE = "tests/dags/test_pipeline.py"
TRIED_AGAIN = f"{PIPELINE}::test_a_pack_is_tried_again_for_what_is_left_and_single_items_can_be_cleared"

MUTANTS = (
    Mutant(
        "database: a table that fails does not end the turn of the next",
        "each_table",
        "failure = outcome.failures[ref.name] = failure_of(ref.name, exc)",
        "raise",
        f"{JOBS}::test_each_table_that_fails_is_told_with_its_error_and_the_others_are_done",
    ),
    Mutant(
        "database: what is committed stays told when what follows fails",
        "each_table",
        "outcome.announcements += done.announcements",
        "pass",
        f"{JOBS}::test_what_was_committed_is_announced_also_when_what_follows_fails",
    ),
    Mutant(
        "database: without a server no table is waited for after the first",
        "each_table",
        "isinstance(exc, _ALL_TABLES_SHARE)",
        "False",
        f"{JOBS}::test_when_no_server_answers_a_task_does_not_wait_for_each_table",
    ),
    Mutant(
        "database: a snapshot that does not fit waits",
        "share_out",
        "ranges[name] <= left",
        "True",
        f"{PACKS}::test_sixteen_tasks_are_shared_out",
    ),
    Mutant(
        "database: a task that ended without a result is told",
        "report_of",
        "(task, number) not in found",
        "False",
        f"{JOBS}::test_a_task_that_died_is_told_with_its_tables_and_results_of_another_plan_do_not_count",
    ),
    Mutant(
        "database: more failures than allowed fail the run",
        "RunReport.problem",
        "len(self.failed) <= max_failed_tables",
        "True",
        f"{JOBS}::test_each_table_that_fails_is_told_with_its_error_and_the_others_are_done",
    ),
    Mutant(
        "database: results of another plan do not count",
        "_results",
        "one.get('plan') == plan",
        "True",
        TRIED_AGAIN,
    ),
    Mutant(
        "database: what a retry may mend is tried again",
        "MssqlCdcDatabaseTask.ended",
        "ti.try_number <= ti.max_tries",
        "False",
        TRIED_AGAIN,
    ),
    Mutant(
        "database: two tables at one path are refused",
        "MssqlCdcDatabase._clashes",
        "other != one.name",
        "False",
        f"{VALUE}::test_what_cannot_be_is_a_problem_of_that_table_alone",
    ),
    Mutant(
        "database: names that differ by case alone are refused",
        "same_but_for_case",
        "other != name",
        "False",
        f"{TRACKED}::test_names_that_differ_by_case_alone_are_found_in_pairs",
    ),
    Mutant(
        "database: no two names share a folder",
        "path_part",
        "character in _PLAIN_IN_PATHS or (character == '.' and index)",
        "True",
        f"{TRACKED}::test_a_part_of_a_path_holds_nothing_that_a_store_reads_as_more_than_a_name",
    ),
    Mutant(
        "database: a row of facts that another task wrote meanwhile is not doubled",
        "_write.once",
        "table.transaction_version(name) is None",
        "True",
        "tests/unit/lake/test_facts.py::test_a_row_that_another_task_wrote_meanwhile_is_not_doubled",
    ),
)
