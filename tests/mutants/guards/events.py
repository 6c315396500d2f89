"""Guards of asset events and lineage: told for what was committed, and never worth a task."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

EVENTS = "tests/dags/test_asset_events.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "events: none when nothing was committed",
        "announce",
        "changed",
        "True",
        f"{EVENTS}::test_a_consumer_of_silver_is_due_when_silver_changed_and_not_otherwise",
    ),
    Mutant(
        "events: what an earlier try committed is announced",
        "run_has_committed",
        "return True",
        "return False",
        f"{EVENTS}::test_what_an_earlier_try_committed_is_announced_by_the_next",
    ),
    Mutant(
        "lineage: a task runs without the provider",
        "_is_on",
        "return False",
        "raise",
        "tests/dags/test_lineage.py::test_the_same_dag_runs_where_the_provider_is_not_installed",
    ),
)
