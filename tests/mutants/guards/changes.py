"""Guards of changes: windows, intervals, repairs, schema changes, the capture trigger."""

from __future__ import annotations

from tests.mutants.mutant import MODULE, Mutant

CHANGES = "tests/unit/jobs/test_changes.py"
CHANGE_GUARDS = "tests/unit/jobs/test_changes_guards.py"
CLOCK = "tests/unit/jobs/test_clock_changes.py"
HISTORY = "tests/unit/jobs/test_history.py"
TASKS = "tests/unit/jobs/test_history_of_tasks.py"
LAGGING = "tests/unit/jobs/test_lagging_replica.py"
WINDOWS = "tests/unit/planning/test_windows.py"
INTERVALS = "tests/unit/planning/test_intervals.py"
TRIGGER = "tests/unit/triggers/test_capture.py"

MUTANTS = (
    Mutant(
        "changes: a window is committed at the position it started from alone",
        "commit_window.once",
        """\
[
    *_moved(bronze, window),
    *_batch_transactions(bronze, batch),
    *stamp_transactions(stamp),
    *instance_transactions(instance),
    *bronze.object_transactions(identity),
]
""",
        """\
[
    *lsn_transactions(CHANGES, window.until),
    Transaction(BATCH, batch),
    *stamp_transactions(stamp),
    *instance_transactions(instance),
    *bronze.object_transactions(identity),
]
""",
        f"{CHANGES}::test_two_runs_at_once_add_every_change_once",
    ),
    Mutant(
        "changes: the low watermark is asked for again after the read",
        "read_window",
        "refuse_gap(run, run.source.still_there(instance), position=window.after)",
        "pass",
        f"{CHANGES}::test_a_window_is_not_committed_when_cleanup_overtook_the_read",
    ),
    Mutant(
        "changes: the instance is still the one that the read began with",
        "ChangeSource.still_there",
        "refreshed(self.session, instance)",
        "instance",
        f"{CHANGE_GUARDS}::test_an_instance_made_again_while_it_is_read_commits_nothing",
    ),
    Mutant(
        "changes: a gap is not stepped over",
        "InstanceChanges.continues",
        "position.incremented() >= self.low",
        "True",
        f"{CHANGE_GUARDS}::test_a_gap_is_recorded_refused_and_moves_nothing",
    ),
    Mutant(
        "changes: an empty range is never sent",
        "_next_reading",
        "reading if reading.until > position else None",
        "reading",
        f"{CHANGES}::test_a_second_run_reads_no_change_twice_and_commits_nothing",
    ),
    Mutant(
        "changes: a position ahead of the server is refused",
        "judge_history",
        "reached is None or needed > reached",
        "False",
        f"{CHANGE_GUARDS}::test_a_restored_database_that_is_behind_the_position_is_refused",
    ),
    Mutant(
        "changes: a replica that is behind is tried again",
        "_refuse_ahead",
        "is_replica",
        "False",
        f"{CHANGE_GUARDS}::test_a_replica_that_is_behind_is_tried_again",
    ),
    Mutant(
        "changes: an LSN given out again is noticed by its commit time",
        "is_same_commit_time",
        "beside <= 2 * _ROUNDING and apart <= _ZONES_APART + _ROUNDING",
        "True",
        f"{CHANGE_GUARDS}::test_a_restored_database_that_has_overtaken_the_position_is_refused",
    ),
    Mutant(
        "changes: an LSN that the server has no commit for is noticed",
        "other_history",
        "_has_to_be_there(stored.lsn, answers)",
        "False",
        f"{HISTORY}::test_a_restored_database_in_which_no_lsn_coincides_is_refused",
    ),
    Mutant(
        "changes: a mapping that was trimmed proves nothing",
        "_has_to_be_there",
        "kept and answers.smallest is not None and answers.smallest <= lsn",
        "kept",
        f"{HISTORY}::test_a_mapping_that_was_trimmed_by_hand_proves_nothing",
    ),
    Mutant(
        "snapshot: none is taken of another history into the same bronze",
        "bronze_for_snapshot",
        "refuse_other_history(session, source.description.instance, bronze=bronze, label=label)",
        "pass",
        f"{HISTORY}::test_a_restored_database_in_which_no_lsn_coincides_is_refused",
    ),
    Mutant(
        "changes: below a newer instance's start capture itself is the bound",
        "choose_reading",
        "min(bound, configured.low.decremented(), chosen.captured or position)",
        "min(bound, configured.low.decremented())",
        f"{CHANGE_GUARDS}::test_below_the_newer_instances_start_nothing_is_taken_for_read_before_capture_was_there",
    ),
    Mutant(
        "changes: windows are cut where the newer instance begins",
        "choose_reading",
        "configured.continues(position)",
        "True",
        f"{WINDOWS}::test_the_instance_that_leads_on",
    ),
    Mutant(
        "changes: without coverage nothing is read",
        "run_changes",
        "not request.start_now and (bronze is None or bronze.state.coverage is None)",
        "False",
        f"{CHANGES}::test_without_a_snapshot_a_run_is_skipped_and_says_what_is_missing",
    ),
    Mutant(
        "changes: a facts row that is missing is written again",
        "run_changes",
        "write_missing_facts(run)",
        "pass",
        f"{CHANGES}::test_a_facts_row_that_was_not_written_comes_with_the_next_run",
    ),
    Mutant(
        "repairs: committed on the very version they were worked out on",
        "LakeTable.commit_files",
        "None if overtaken else 0",
        "None",
        f"{CHANGES}::test_a_repair_meanwhile_overtaken_by_an_optimize_doubles_nothing",
    ),
    Mutant(
        "repairs: rows of snapshots stay",
        MODULE,
        "_FIRST_CHANGE = 1",
        "_FIRST_CHANGE = 0",
        f"{CHANGES}::test_a_repair_leaves_the_rows_of_snapshots_as_they_are",
    ),
    Mutant(
        "repairs: changes outside the window stay",
        "_in_window",
        "pc.less_equal(lsns, window.until.text)",
        "pc.is_valid(lsns)",
        f"{CHANGES}::test_a_repair_replaces_exactly_its_rows",
    ),
    Mutant(
        "intervals: one whose commits are forgotten is not repaired",
        "decide_interval",
        "lower is None and (not base_kept)",
        "False",
        f"{INTERVALS}::test_what_a_run_does_with_its_interval",
    ),
    Mutant(
        "intervals: in the repeated hour no earlier commit is cut off",
        "wall_cut",
        "begins < local < ends or (local == begins and at >= hour.change)",
        "False",
        f"{INTERVALS}::test_the_cut_never_goes_back_and_never_cuts_off_an_earlier_commit",
    ),
    Mutant(
        "schema: a column that CDC does not record is never filled with NULL",
        "decide_schema",
        "raise SchemaDrift(_not_recorded(instance, lost))",
        "pass",
        f"{CHANGE_GUARDS}::test_a_column_dropped_and_added_again_stops",
    ),
    Mutant(
        "schema: a new column is accepted on purpose or not at all",
        "decide_schema",
        "added and (not accept_nulls)",
        "False",
        f"{CHANGE_GUARDS}::test_a_column_that_the_newer_instance_adds_stops_where_it_begins",
    ),
    Mutant(
        "capture: a look at the server never holds up the event loop",
        "MssqlCdcCaptureTrigger._attempt",
        "await asyncio.to_thread(self._look, connection)",
        "self._look(connection)",
        f"{TRIGGER}::test_a_server_that_says_nothing_does_not_hold_up_the_event_loop",
    ),
    Mutant(
        "changes: files that another's tidying took are staged again, under the next number",
        "until_committed",
        "missed or reload is None",
        "True",
        f"{CHANGES}::test_what_a_runs_next_try_tidies_up_is_read_again_by_whoever_staged_it",
    ),
    Mutant(
        "P3 quiet commits that fill a window do not hold the position up",
        "_read_on",
        "not rows.files",
        "False",
        f"{CHANGES}::test_a_change_behind_more_quiet_commits_than_a_window_holds_is_read",
    ),
    Mutant(
        "B9 the second pass of a repeated hour has its own time",
        "WindowCommits._settle",
        "hour.second is not None",
        "False",
        f"{CLOCK}::test_around_a_change_of_the_clock_each_commit_has_its_own_time",
    ),
    Mutant(
        "B9 a commit asked alone is of the pass that its LSN tells",
        "RepeatedHour.instant_of",
        "stamp.lsn >= self.second",
        "False",
        f"{CLOCK}::test_a_commit_s_time_asked_alone_is_that_of_its_row",
    ),
    Mutant(
        "B9 a second pass begins where the clock has fallen, not at any entry",
        "second_pass",
        "ends - third",
        "begins",
        f"{CLOCK}::test_around_a_change_of_the_clock_each_commit_has_its_own_time",
    ),
    Mutant(
        "B9 without a named zone a horizon is an hour later",
        "horizon",
        "zone_of(session).name is None",
        "False",
        f"{CLOCK}::test_before_a_delete_that_silver_misses_already_it_is_not_the_source",
    ),
    Mutant(
        "B9 a replica's clock may lag behind the one that commit times come from",
        "horizon",
        "row['updateability'] == 'READ_ONLY'",
        "False",
        "tests/unit/source/test_watermarks.py::test_the_horizon_bears_what_its_clock_cannot",
    ),
    Mutant(
        "B9 how old capture is, is told in UTC",
        "stamp_of",
        "_instant(session, lsn, answer.row)",
        "utc_of(answer.row['utc_time'])",
        f"{CLOCK}::test_capture_that_runs_does_not_look_stopped_when_the_clock_changes",
    ),
    Mutant(
        "history: the newest snapshot above the position is asked for too",
        "history_question",
        "newest is not None and newest > coverage.changes",
        "False",
        f"{TASKS}::test_a_snapshot_of_the_lost_history_is_noticed_though_the_position_is_in_both",
    ),
    Mutant(
        "history: what a replica has not come to yet proves nothing",
        "judge_history",
        "stamp.lsn <= reached",
        "True",
        f"{TASKS}::test_a_replica_above_the_position_and_below_a_newer_snapshot_is_read_from",
    ),
    Mutant(
        "history: a wave looks",
        "stage_wave",
        "refuse_other_history(session, instance, bronze=bronze, label=label)",
        "pass",
        f"{TASKS}::test_a_chunked_load_is_not_gone_on_with",
    ),
    Mutant(
        "snapshot: its own S is at or below what the server has reached",
        "refuse_snapshot_ahead",
        "snapshot <= reached",
        "True",
        f"{TASKS}::test_a_first_snapshot_above_what_the_server_has_reached_is_not_committed",
    ),
    Mutant(
        "replica: an instance that it does not show yet is no verdict",
        "described_source",
        "known is not None and is_read_only(session)",
        "False",
        f"{LAGGING}::test_a_range_waits_for_a_replica_that_does_not_show_the_instance",
    ),
    Mutant(
        "replica: above what is known it gives a verdict",
        "described_source",
        "reached is None or reached <= known",
        "True",
        f"{LAGGING}::test_a_replica_above_what_is_known_gives_a_verdict",
    ),
    Mutant(
        "history: rows above the position are no change of it",
        "newest_lsn_beside_changes",
        "high <= position.text",
        "True",
        f"{HISTORY}::test_rows_above_the_position_are_not_asked_for",
    ),
    Mutant(
        "changes: a run is quiet only where nothing was purged from above the position",
        "ask_first",
        "available.continues(position)",
        "True",
        f"{CHANGE_GUARDS}::test_changes_purged_before_a_quiet_run_asks_are_a_gap",
    ),
    Mutant(
        "changes: a run with changes is not quiet",
        "ask_first",
        "not changed.found",
        "True",
        f"{CHANGES}::test_a_change_that_comes_while_a_quiet_run_asks_is_read_by_this_run_or_the_next",
    ),
    Mutant(
        "changes: a quiet position is not overtaken by cleanup",
        "moves_without_rows",
        "min(quiet_seconds, _longest_rest(until, kept_since))",
        "quiet_seconds",
        f"{CHANGES}::test_a_quiet_position_is_never_overtaken_by_cleanup",
    ),
)
