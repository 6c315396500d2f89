"""Commits whose outcome is not known."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OUTCOMES = "tests/unit/lake/test_outcomes.py"
S3 = "tests/dags/test_s3_silver.py"

FEATURES = "tests/unit/lake/test_table_features.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "features: one that is not known is refused by name",
        "_refuse_features",
        "features - _KNOWN_FEATURES",
        "()",
        f"{FEATURES}::test_a_feature_that_cannot_be_honoured_is_refused_by_name",
    ),
    Mutant(
        "features: what no further try changes is no conflict",
        "until_committed",
        "_refuse_what_no_try_changes(exc, what=what)",
        "pass",
        f"{FEATURES}::test_a_table_that_cannot_be_written_is_no_conflict",
    ),
    Mutant(
        "unknown outcomes: a file that a commit may name is not removed",
        "discard",
        "file.path not in table.in_doubt",
        "True",
        f"{OUTCOMES}::test_a_file_that_was_handed_to_a_commit_without_an_answer_stays",
    ),
    Mutant(
        "unknown outcomes: nothing is removed while the log cannot be read",
        "remove_unnamed",
        "return 0",
        "named = set()",
        f"{OUTCOMES}::test_nothing_is_removed_while_the_log_cannot_be_read",
    ),
    Mutant(
        "unknown outcomes: a silver that names a missing file is rebuilt",
        "Silver.damage",
        "self._restored or self._missing_files()",
        "self._restored",
        f"{OUTCOMES}::test_a_silver_that_names_a_missing_file_is_built_anew_and_says_so",
    ),
    Mutant(
        "unknown outcomes: a commit that seems to have lost looks for itself in the log",
        "LakeTable.commit_files",
        "landed is None",
        "True",
        f"{S3}::test_a_merge_whose_answer_is_lost_keeps_its_files",
    ),
)
