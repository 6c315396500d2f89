"""Guards of a chunked snapshot: its plan, its waves, its opening and completion."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

CHUNKED = "tests/scenarios/test_chunked_snapshot.py"
WAVES = "tests/unit/lake/test_waves.py"
PLANS = "tests/unit/lake/test_plans.py"
CLOSED = "tests/properties/test_closed_ranges.py"

MUTANTS = (
    Mutant(
        "chunked: the session that reads a wave has passed S",
        "_stamp",
        "stamp < plan.snapshot",
        "False",
        f"{CHUNKED}::test_a_server_that_is_behind_s_is_not_read",
    ),
    Mutant(
        "chunked: a wave is not read when changes above the position are purged",
        "stage_wave",
        "refuse_lost_changes(session, instance, state=bronze.state, label=label)",
        "pass",
        f"{CHUNKED}::test_a_wave_is_not_read_when_changes_above_the_position_are_purged",
    ),
    Mutant(
        "chunked: a wave is not committed when they were purged meanwhile",
        "_commit",
        "refuse_lost_changes(session, instance, state=bronze.reload().state, label=label)",
        "bronze.reload()",
        f"{CHUNKED}::test_a_wave_is_not_committed_when_they_are_purged_while_it_is_read",
    ),
    Mutant(
        "chunked: an opening moves coverage on a gap alone",
        "decide_opening",
        "gap and snapshot > state.coverage.changes",
        "snapshot > state.coverage.changes",
        f"{WAVES}::test_an_open_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "chunked: the gap is proven for the position that bronze still has",
        "open_snapshot.once",
        "state.coverage is not None and state.coverage.changes == gap_position",
        "gap_position is not None",
        f"{WAVES}::test_an_open_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "chunked: an opening is above every S in bronze",
        "decide_opening",
        "state.newest is not None and snapshot <= state.newest",
        "False",
        f"{WAVES}::test_a_resnapshot_that_was_overtaken_records_a_later_lsn",
    ),
    Mutant(
        "chunked: a wave of a superseded snapshot is not committed",
        "commit_wave.once",
        "refuse_ended(bronze.state, snapshot)",
        "pass",
        f"{WAVES}::test_a_base_that_moves_meanwhile_keeps_an_open_and_a_completion_out",
    ),
    Mutant(
        "chunked: a superseded snapshot is not completed",
        "decide_completion",
        "refuse_ended(state, snapshot)",
        "pass",
        f"{WAVES}::test_a_base_that_moves_meanwhile_keeps_an_open_and_a_completion_out",
    ),
    Mutant(
        "chunked: an abandoned snapshot takes nothing more",
        "refuse_ended",
        "not complete and state.abandoned is not None and (snapshot <= state.abandoned)",
        "False",
        f"{WAVES}::test_an_abandoned_snapshot_takes_nothing_more_and_a_complete_one_is_left_alone",
    ),
    Mutant(
        "chunked: a wave lands once",
        "commit_wave.once",
        "(theirs := landed_wave(bronze.table, snapshot, wave)) is not None",
        "False",
        f"{WAVES}::test_a_wave_lands_once_whoever_brings_it_again",
    ),
    Mutant(
        "chunked: two processes with the same wave conflict",
        "commit_wave.once",
        """\
[
    Transaction(wave_app_id(snapshot, wave), rows),
    *horizon_transactions(snapshot, horizon, wave=wave),
]
""",
        "[]",
        f"{WAVES}::test_two_processes_that_bring_the_same_wave_leave_its_rows_once",
    ),
    Mutant(
        "chunked: files that a commit names after all are kept",
        "remove_unnamed",
        "(storage.discard(name) for name in names if name not in named)",
        "(storage.discard(name) for name in names)",
        f"{WAVES}::test_files_whose_commit_seemed_to_fail_and_did_not_are_kept",
    ),
    Mutant(
        "chunked: a snapshot with a missing wave is not complete",
        "commit_completion.once",
        "refuse_missing(missing_waves(waves, landed), snapshot=snapshot, waves=waves)",
        "pass",
        f"{WAVES}::test_waves_and_completion_tell_rows_and_the_latest_horizon",
    ),
    Mutant(
        "chunked: the horizon is the latest over all waves",
        "commit_completion.once",
        "latest_horizon(landed.values())",
        "latest_horizon(list(landed.values())[-1:])",
        f"{WAVES}::test_waves_and_completion_tell_rows_and_the_latest_horizon",
    ),
    Mutant(
        "chunked: the last chunk ends at MAX",
        "StoredPlan._range",
        "KeyRange(lower, highest, closed=highest is not None)",
        "KeyRange(lower)",
        f"{CHUNKED}::test_the_last_chunk_ends_at_the_key_that_was_the_last_after_s",
    ),
    Mutant(
        "chunked: rows that equal MAX are in the last chunk",
        "range_pieces",
        "key_range.closed and upper is not None",
        "False",
        f"{CLOSED}::test_every_row_up_to_the_last_key_is_in_one_chunk_and_no_other_is",
    ),
    Mutant(
        "chunked: bounds are looked for up to MAX",
        "seek_key",
        "upper is not None",
        "False",
        f"{CLOSED}::test_seeks_end_at_the_last_key_whatever_lies_above",
    ),
    Mutant(
        "chunked: slices are whole numbers, however wide",
        "count_slices",
        "f'CAST({int(width)} AS bigint)'",
        "f'{int(width)}'",
        "tests/properties/test_chunk_plans_server.py::test_a_wrong_estimate_changes_nothing_in_correctness",
    ),
    Mutant(
        "chunked: an abandoning and a completion exclude each other",
        "abandon_unfinished.once",
        "[*lsn_transactions(ABANDONED, unfinished), *lsn_transactions(BASE, coverage.base)]",
        "lsn_transactions(ABANDONED, unfinished)",
        f"{WAVES}::test_of_an_abandoning_and_a_completion_at_once_the_first_is_what_both_find",
    ),
    Mutant(
        "chunked: of two planners one stores",
        "_store.once",
        "_count(table, snapshot) != expected or table.transaction_version(plan_waves_app_id(snapshot))",
        "False",
        f"{PLANS}::test_whoever_was_overtaken_writes_nothing",
    ),
    Mutant(
        "chunked: a snapshot from which no change can lead is not complete",
        "_commit",
        "refuse_lost_changes(session, instance, state=bronze.state, label=table.label)",
        "pass",
        f"{CHUNKED}::test_a_snapshot_from_which_no_change_can_lead_is_not_complete",
    ),
)
