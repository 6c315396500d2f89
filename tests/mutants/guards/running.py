"""Guards of what runs: lost connections, retries, stops, secrets."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TRIGGER = "tests/unit/triggers/test_capture.py"
EARLY = "tests/unit/jobs/test_early_ends.py"
DAG_ERRORS = "tests/dags/test_errors.py"
SECRETS = "tests/dags/test_secrets.py"
S3 = "tests/dags/test_s3.py"

MUTANTS = (
    Mutant(
        "an answer that ended early is taken for nothing else",
        "marked_answers",
        "len(answers) != count",
        "False",
        "tests/unit/jobs/test_early_ends.py::"
        "test_a_connection_that_goes_at_any_statement_costs_a_try_and_is_taken_for_nothing_else",
    ),
    Mutant(
        "one of several questions that fails leaves the others their answers",
        "SourceSession._answered",
        'log.debug("%s: asking again in halves: %s", self.settings.label, exc)',
        "raise",
        "tests/unit/source/test_session.py::"
        "test_where_one_of_several_fails_the_others_are_answered_all_the_same",
    ),
    Mutant(
        "a capture instance that its likely table has not by this name is looked up among all",
        "_listed",
        "told.name.capture_instance in {one.name for one in found}",
        "True",
        "tests/unit/source/test_catalog.py::test_a_name_that_differs_by_case_is_looked_up_among_all",
    ),
    Mutant(
        "it survives: rows that end early are not taken for the end of a range",
        "check_count",
        "sent == rows",
        "True",
        f"{EARLY}::test_a_range_whose_rows_end_early_is_read_again_as_a_whole",
    ),
    Mutant(
        "it survives: the session answers once more after the last row",
        "read_range",
        "horizon(session, source.description.instance)",
        "None",
        f"{EARLY}::test_a_connection_that_goes_between_the_last_row_and_the_horizon_is_noticed_by_the_horizon",
    ),
    Mutant(
        "it survives: what no retry mends is not retried",
        "CdcTask._for_airflow",
        "exc.retryable",
        "True",
        f"{DAG_ERRORS}::test_airflow_tries_again_what_is_retryable_and_nothing_else",
    ),
    Mutant(
        "it survives: a task that was told to stop opens no session",
        "MssqlCdcOperator.connect",
        "self._stopped",
        "False",
        f"{DAG_ERRORS}::test_a_task_that_was_told_to_stop_opens_no_session_any_more",
    ),
    Mutant(
        "it survives: a statement of a task that ran too long is ended on the server",
        "DriverSocket.shut_down",
        "duplicate.shutdown(socket.SHUT_RDWR)",
        "pass",
        f"{DAG_ERRORS}::test_a_task_that_runs_too_long_ends_its_query_on_the_server_and_its_files_go_with_the_next_commit",
    ),
    Mutant(
        "it survives: a commit that lost is decided anew",
        "until_committed",
        "number == tries",
        "True",
        f"{S3}::test_a_commit_that_loses_twenty_times_or_whose_answer_is_lost_lands_once",
    ),
    Mutant(
        "it survives: unsafe rename is refused",
        "_refuse_unsafe_rename",
        "key.lower().endswith(_UNSAFE_RENAME)",
        "False",
        f"{S3}::test_unsafe_rename_is_refused_before_anything_is_read_or_written",
    ),
    Mutant(
        "it survives: what a killed merge left goes with its next try",
        "_merge_once",
        "remove_orphans(silver, run=order.attempt.run, up_to=commit.position.version)",
        "pass",
        "tests/dags/test_s3_silver.py::test_what_a_killed_merge_left_is_removed_by_its_next_try",
    ),
    Mutant(
        "it survives: a deferred task does not go on before the scheduler has noted its deferral",
        "MssqlCdcCaptureTrigger.run",
        "await asyncio.sleep(self._pause_before(deadline))",
        "pass",
        f"{TRIGGER}::test_no_event_comes_before_a_pause_which_the_deadline_ends",
    ),
    Mutant(
        "security: what the server quotes is blotted out",
        "_said",
        "not rule.names_only",
        "False",
        f"{SECRETS}::test_what_the_server_quotes_in_an_error_is_not_in_the_task_s_log",
    ),
    Mutant(
        "security: storage options are in no repr",
        "MssqlCdcTable",
        "field(default=None, repr=False)",
        "field(default=None)",
        f"{SECRETS}::test_neither_credentials_nor_values_are_in_what_airflow_and_the_facts_keep",
    ),
    Mutant(
        "security: a template that was not rendered is in no link",
        "MssqlCdcFactsLink.get_link",
        "not _is_unrendered(table)",
        "True",
        "tests/unit/operators/test_links.py::test_a_template_that_was_not_rendered_is_never_part_of_it",
    ),
)
