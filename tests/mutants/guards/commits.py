"""Guards of a commit to bronze: its state, and the files that it names."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

COMMIT = "tests/unit/lake/test_commit.py"
STAGED = "tests/unit/lake/test_staged_files.py"
RACES = f"{COMMIT}::test_of_two_completes_the_second_to_commit_gives_way_or_is_the_newer_resnapshot"
DAMAGED = f"{STAGED}::test_a_file_that_is_not_what_was_staged_is_named_and_nothing_is_committed"
CLAIMED = f"{STAGED}::test_a_claim_that_the_file_does_not_bear_out_is_refused"
WAVES = "tests/unit/lake/test_waves.py"

MUTANTS = (
    Mutant(
        "state: the commit is made with the handle that was decided on",
        "LakeTable.commit_files",
        "self.table.create_write_transaction",
        "DeltaTable(self.location.uri).create_write_transaction",
        RACES,
    ),
    Mutant(
        "state: a snapshot that is stored is kept",
        "decide_snapshot_commit",
        "stored >= snapshot or not resnapshot",
        "stored >= snapshot",
        RACES,
    ),
    Mutant(
        "state: an older resnapshot never replaces a newer one",
        "decide_snapshot_commit",
        "stored >= snapshot or not resnapshot",
        "not resnapshot",
        RACES,
    ),
    Mutant(
        "state: a snapshot below the base is superseded",
        "decide_snapshot_commit",
        "refuse_superseded(state, snapshot)",
        "pass",
        f"{COMMIT}::test_a_base_that_moves_above_s_meanwhile_supersedes_it",
    ),
    Mutant(
        "state: coverage moves on a proven gap alone",
        "decide_snapshot_commit",
        "gap and snapshot > state.coverage.changes",
        "snapshot > state.coverage.changes",
        f"{COMMIT}::test_a_resnapshot_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "files: a file that is missing is not committed",
        "_sound_footer",
        "return _Problem(f'{file.path} is missing')",
        "size = file.size",
        DAMAGED,
    ),
    Mutant(
        "files: a file of another size is not committed",
        "_sound_footer",
        "size != file.size",
        "False",
        DAMAGED,
    ),
    Mutant(
        "files: a file with another number of rows is not committed",
        "_sound_footer",
        "footer.num_rows != file.rows",
        "False",
        CLAIMED,
    ),
    Mutant(
        "files: a file of another snapshot is not committed",
        "is_of_snapshot",
        "_PLAIN.match(name) is not None and name.startswith(f'{snapshot.text}-')",
        "_PLAIN.match(name) is not None",
        CLAIMED,
    ),
    Mutant(
        "files: a file of other columns is not committed",
        "_sound_footer",
        "_Problem(f'{file.path}: {difference}', drift=True) if difference else footer",
        "footer",
        f"{STAGED}::test_a_file_of_other_columns_is_drift",
    ),
    Mutant(
        "a whole snapshot is not put beside waves of the same LSN",
        "_refuse_shared_lsn",
        "was_opened(bronze.table, snapshot) or bronze.state.open == snapshot",
        "bronze.state.open == snapshot",
        f"{WAVES}::test_a_whole_snapshot_of_the_same_lsn_is_not_put_beside_its_waves",
    ),
)
