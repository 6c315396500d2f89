"""Guards of a whole database: each table's trouble its own, and nothing told that is not so."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

JOBS = "tests/unit/jobs/test_database.py"
AT_ONCE = "tests/unit/jobs/test_tables_at_once.py"
VALUE = "tests/unit/test_database.py"
PACKS = "tests/unit/planning/test_packs.py"
TRACKED = "tests/unit/model/test_tracked.py"
PIPELINE = "tests/dags/test_pipeline.py"
QUIET = f"{JOBS}::test_a_quiet_follow_opens_each_delta_table_once_and_looks_each_transaction_up_once"
TRIED_AGAIN = f"{PIPELINE}::test_a_pack_is_tried_again_for_what_is_left_and_single_items_can_be_cleared"

MUTANTS = (
    Mutant(
        "database: a table that fails does not end the turn of the next",
        "_Turns._take_one",
        "failure = self._failed[ref.name] = failure_of(ref.name, exc)",
        "raise",
        f"{JOBS}::test_each_table_that_fails_is_told_with_its_error_and_the_others_are_done",
    ),
    Mutant(
        "database: what is committed stays told when what follows fails",
        "_Turns.outcome",
        "outcome.announcements += done.announcements",
        "pass",
        f"{JOBS}::test_what_was_committed_is_announced_also_when_what_follows_fails",
    ),
    Mutant(
        "database: without a server no table is waited for after the first",
        "_Turns._take_one",
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
    Mutant(
        "database: a quiet follow opens bronze once",
        "follow_table",
        "_merge(order, connect, done, bronze=bronze)",
        "_merge(order, connect, done, bronze=None)",
        QUIET,
    ),
    Mutant(
        "database: a transaction is looked up once in a version",
        "RememberingTable.transaction_version",
        "app_id not in self._known",
        "True",
        QUIET,
    ),
    Mutant(
        "lake: what is known of a version is not said of the next one",
        "RememberingTable.transaction_version",
        "self._known_at != (version := self.version())",
        "self._known_at != (version := 0)",
        "tests/unit/lake/test_bronze.py::test_a_handle_that_moves_on_forgets_what_it_knew_of_transactions",
    ),
    Mutant(
        "silver: a merge that was overtaken looks at the newest bronze",
        "_merge_once",
        "position is None or position.version != bronze.version",
        "position is None",
        "tests/unit/jobs/test_merge_silver.py"
        "::test_a_handle_on_bronze_that_another_merge_has_overtaken_is_no_restored_bronze",
    ),
    Mutant(
        "tables at once: what a task writes together is its threads' too",
        "_at_once",
        "pool.submit(contextvars.copy_context().run, turns.take)",
        "pool.submit(turns.take)",
        f"{AT_ONCE}::test_they_are_loaded_and_followed_as_if_one_came_after_the_other",
    ),
    Mutant(
        "tables at once: a session is one thread's",
        "TaskSessions.__call__",
        "key = threading.get_ident(), isolation",
        "key = 0, isolation",
        f"{AT_ONCE}::test_so_many_are_read_at_the_same_moment",
    ),
    Mutant(
        "tables at once: what ends the wait ends the threads",
        "_at_once",
        "sessions.cancel()",
        "pass",
        f"{AT_ONCE}::test_what_ends_the_waiting_thread_ends_the_others_and_keeps_what_was_done",
    ),
    Mutant(
        "tables at once: after a kill no table is begun",
        "_Turns._not_worth_trying",
        "self.worker.sessions.cancelled",
        "False",
        f"{AT_ONCE}::test_a_kill_ends_all_sessions_and_the_next_try_does_what_is_left",
    ),
    Mutant(
        "tables at once: after a kill no large merge is begun",
        "turn_of",
        "shared.has_ended()",
        "False",
        f"{AT_ONCE}::test_a_killed_task_begins_no_large_merge",
    ),
    Mutant(
        "tables at once: large merges take turns",
        "turn_of",
        "size() <= SMALL_BYTES",
        "True",
        f"{AT_ONCE}::test_of_large_merges_one_is_done_at_a_time_and_small_ones_do_not_wait",
    ),
    Mutant(
        "tables at once: a row group is shared out",
        "_row_groups",
        "share_of(ROW_GROUP_BYTES)",
        "ROW_GROUP_BYTES",
        f"{AT_ONCE}::test_all_of_them_together_hold_the_rows_that_one_may_hold",
    ),
)
