"""Guards of the page in Airflow's UI."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

VIEWS = "tests/unit/test_ui_views.py"

MUTANTS = (
    Mutant(
        "page: a failure is shown at the table that its error names",
        "failed_of.belongs",
        "task.error.bronze == table.bronze",
        "True",
        f"{VIEWS}::test_a_failed_task_belongs_to_the_table_that_it_worked_on",
    ),
    Mutant(
        "page: a message is for those who may read the log",
        "_error",
        "error is None or not with_message",
        "error is None",
        f"{VIEWS}::test_a_message_is_for_those_who_may_read_the_log",
    ),
)
