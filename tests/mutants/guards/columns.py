"""Guards of columns: casts and code pages of a key, one decision about what is recorded."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KEYS = "tests/unit/jobs/test_key_casts.py"
ONE_TO_ONE = "tests/unit/planning/test_one_to_one.py"

LOST = "tests/unit/jobs/test_lost_columns.py"

MUTANTS = (
    Mutant(
        "columns: a plan decides about them as changes do",
        "bronze_for_snapshot",
        "decide_columns(bronze, source)",
        "decide_columns(None, source)",
        f"{LOST}::test_a_resnapshot_is_refused_where_changes_stop",
    ),
    Mutant(
        "columns: a read decides about them once more",
        "read_range",
        "decide_columns(bronze, source)",
        "pass",
        f"{LOST}::test_a_column_that_is_lost_after_the_plan_stops_reads_and_complete",
    ),
    Mutant(
        "columns: complete decides about them once more",
        "_commit",
        "decide_columns(bronze, source)",
        "pass",
        f"{LOST}::test_a_column_that_is_lost_after_the_plan_stops_reads_and_complete",
    ),
    Mutant(
        "P6: a cast of a key column that is not one-to-one is refused",
        "key_problems",
        "cast_problems(key, columns)",
        "()",
        f"{KEYS}::test_preflight_names_the_key_column_and_nothing_is_written",
    ),
    Mutant(
        "P6: changes refuse a cast of the key too",
        "ChangeSource.__init__",
        "self._key_problems()",
        "()",
        f"{KEYS}::test_a_cast_that_comes_after_the_snapshot_is_refused_by_changes",
    ),
    Mutant(
        "P6: a key in another code page than the database is refused",
        "key_problems",
        "code_page_problems(key, description.facts, allow=allow)",
        "()",
        f"{KEYS}::test_preflight_names_the_key_column_and_nothing_is_written",
    ),
    Mutant(
        "P6: an offset that is left out makes two instants one",
        "_as_moment",
        'source.name == "datetimeoffset" and target.name != "datetimeoffset"',
        "False",
        f"{ONE_TO_ONE}::test_a_cast_that_may_turn_two_keys_into_one_is_refused",
    ),
)
