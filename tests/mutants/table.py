"""The guards that the guarantees rest on, and the test that turns red without each.

``text`` stands exactly once in ``file``; ``test`` is a pytest node id, without a case's brackets.
"""

from __future__ import annotations

from dataclasses import dataclass

PACKAGE = "airflow_provider_mssql_cdc"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard taken out.

    :param name: what is broken, in the words of docs/guarantees.md.
    """

    name: str
    file: str
    text: str
    replacement: str
    test: str


COMMIT = "tests/unit/lake/test_commit.py"
STAGED = "tests/unit/lake/test_staged_files.py"
TILES = "tests/properties/test_key_ranges.py::test_every_row_is_in_exactly_one_piece_of_exactly_one_range"
BOUNDS = "tests/contract/test_portable_keys.py::test_a_bound_finds_the_row_that_it_was_rendered_from"
SEEKS = "tests/scenarios/test_ranges_seek.py::test_every_row_is_read_once_and_no_range_visits_anothers_rows"
RACES = f"{COMMIT}::test_of_two_completes_the_second_to_commit_gives_way_or_is_the_newer_resnapshot"
DAMAGED = f"{STAGED}::test_a_file_that_is_not_what_was_staged_is_named_and_nothing_is_committed"
ORDER = "tests/scenarios/test_order_of_a_snapshot.py"
CLAIMED = f"{STAGED}::test_a_claim_that_the_file_does_not_bear_out_is_refused"

CHANGES = "tests/unit/jobs/test_changes.py"
CHANGE_GUARDS = "tests/unit/jobs/test_changes_guards.py"
WINDOWS = "tests/unit/planning/test_windows.py"
INTERVALS = "tests/unit/planning/test_intervals.py"
TRIGGER = "tests/unit/triggers/test_capture.py"
CHUNKED = "tests/scenarios/test_chunked_snapshot.py"
WAVES = "tests/unit/lake/test_waves.py"
PLANS = "tests/unit/lake/test_plans.py"
CLOSED = "tests/properties/test_closed_ranges.py"

MERGE, POSITION, COSTS = (f"tests/unit/lake/silver/test_{name}.py" for name in ("merge", "position", "costs"))

EARLY = "tests/unit/jobs/test_early_ends.py"
DAG_ERRORS = "tests/dags/test_errors.py"
SECRETS = "tests/dags/test_secrets.py"
S3 = "tests/dags/test_s3.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "P1 the session that reads has passed the stamp",
        f"{PACKAGE}/jobs/read_range.py",
        """if reached < planned.snapshot:""",
        """if False:""",
        f"{ORDER}::test_a_server_that_is_behind_the_stamp_is_not_read",
    ),
    Mutant(
        "P2 a resnapshot is above every S in bronze",
        f"{PACKAGE}/jobs/plan_snapshot.py",
        """if newest is None or snapshot > newest:""",
        """if True:""",
        f"{ORDER}::test_a_resnapshot_is_above_every_snapshot_in_bronze",
    ),
    Mutant(
        "P3 a snapshot that retention has passed is not read",
        f"{PACKAGE}/jobs/read_range.py",
        """    refuse_unretained(session, instance, position=planned.snapshot, label=table.label)""",
        """    pass""",
        f"{ORDER}::test_a_snapshot_that_retention_has_passed_is_not_read",
    ),
    Mutant(
        "P3 a snapshot that retention has passed is not committed",
        f"{PACKAGE}/jobs/complete_snapshot.py",
        """        refuse_unretained(session, instance, position=plan.snapshot, label=table.label)""",
        """        pass""",
        f"{ORDER}::test_a_snapshot_that_retention_has_passed_is_not_committed",
    ),
    Mutant(
        "P3 the LSN below an instance's first one is retained",
        f"{PACKAGE}/source/watermarks.py",
        """return position.incremented() >= lowest""",
        """return position >= lowest""",
        f"{ORDER}::test_a_new_instance_is_loaded_before_capture_has_reached_it",
    ),
    Mutant(
        "P4 S is recorded before the key is measured",
        f"{PACKAGE}/jobs/plan_snapshot.py",
        """        facts = plan_facts(bronze, snapshot,""",
        """        snapshot = now(session, source.description.instance)
        facts = plan_facts(bronze, snapshot,""",
        f"{ORDER}::test_s_is_recorded_before_the_key_is_measured",
    ),
    Mutant(
        "P4 every range of the plan is there",
        f"{PACKAGE}/planning/completeness.py",
        """missing = sorted(set(range(count)) - set(indexes))""",
        """missing = sorted(set(indexes) - set(indexes))""",
        f"{ORDER}::test_a_range_that_is_missing_keeps_the_whole_snapshot_out",
    ),
    Mutant(
        "P5 a before-image takes its key away",
        "tests/support/rebuild.py",
        """if row["_operation"] not in (1, 3)""",
        """if row["_operation"] != 1""",
        f"{ORDER}::test_rows_that_change_while_they_are_read_end_as_the_source_has_them",
    ),
    Mutant(
        "P4 the upper end of a range is open",
        f"{PACKAGE}/tsql/predicates.py",
        """comparison = self._compare(index, "<")""",
        """comparison = self._compare(index, "<=")""",
        TILES,
    ),
    Mutant(
        "P4 the lower end of a range is closed",
        f"{PACKAGE}/tsql/predicates.py",
        """return True if self.values[index] is None else self._compare(index, ">=")""",
        """return True if self.values[index] is None else self._compare(index, ">")""",
        TILES,
    ),
    Mutant(
        "P4 NULL sorts below every value",
        f"{PACKAGE}/tsql/predicates.py",
        """if not (nulls and self.columns[index].nullable):""",
        """if True:""",
        TILES,
    ),
    Mutant(
        "P4 texts that differ may be one key for the server",
        f"{PACKAGE}/tsql/predicates.py",
        """if not _may_be_equal(lower, upper, shared):""",
        """if True:""",
        TILES,
    ),
    Mutant(
        "P4 a bound has the column's declared type",
        f"{PACKAGE}/tsql/bounds.py",
        """return BoundText(f"CAST({marker.text} AS {sql_type.declaration})", marker.parameters)""",
        """return marker""",
        "tests/unit/tsql/test_golden.py::test_a_statement_is_the_one_that_was_reviewed",
    ),
    Mutant(
        "P4 a bound of a char column is of its type",
        f"{PACKAGE}/tsql/bounds.py",
        """return BoundText(f"CAST({text.text}{collate} AS {sql_type.declaration})", text.parameters)""",
        """return text""",
        SEEKS,
    ),
    Mutant(
        "P4 a bound of a binary column is binary",
        f"{PACKAGE}/tsql/bounds.py",
        """return BoundText(f"CONVERT({sql_type.declaration}, {marker.text}, 1)", marker.parameters)""",
        """return BoundText(f"CAST({marker.text} AS {sql_type.declaration})", marker.parameters)""",
        BOUNDS,
    ),
    Mutant(
        "P4 a bound of a char column has its collation",
        f"{PACKAGE}/tsql/bounds.py",
        """collate = f" COLLATE {sql_type.collation}" if sql_type.collation else \"\"""",
        """collate = \"\"""",
        SEEKS,
    ),
    Mutant(
        "P4 a text that would come back as another one is no bound",
        f"{PACKAGE}/tsql/bounds.py",
        """or not collation.startswith(_MULTI_BYTE):""",
        """or True:""",
        "tests/unit/tsql/test_bounds.py::"
        "test_a_text_of_a_multi_byte_code_page_is_marked_when_it_would_not_come_back",
    ),
    Mutant(
        "P4 a range is counted again",
        f"{PACKAGE}/jobs/recount.py",
        """    if counted == rows:""",
        """    if True:""",
        "tests/unit/jobs/test_recounted.py::test_a_row_that_was_not_read_fails_the_range",
    ),
    Mutant(
        "P4 a value that repeats is never split between ranges",
        f"{PACKAGE}/planning/seeks.py",
        """if row is not None and int(row["is_lower"]) == 1:""",
        """if False:""",
        "tests/properties/test_key_ranges_seeks.py::test_planned_bounds_rise_and_their_ranges_tile_the_table",
    ),
    Mutant(
        "values: a cast never cuts",
        f"{PACKAGE}/tsql/projections.py",
        """    if limit is None:""",
        """    if True:""",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_value_that_a_cast_would_cut_or_cannot_convert_names_column_table_and_range",
    ),
    Mutant(
        "values: a masked column is refused unless it is allowed",
        f"{PACKAGE}/planning/types.py",
        """if column.masked and column.name not in allow:""",
        """if False:""",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_masked_column_is_refused_until_it_is_allowed_or_unmasked",
    ),
    Mutant(
        "values: a table under row-level security is refused unless it is allowed",
        f"{PACKAGE}/planning/preflight.py",
        """if facts.row_level_security and ROW_LEVEL_SECURITY not in allow:""",
        """if False:""",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_table_under_row_level_security_is_refused_unless_it_is_allowed",
    ),
    Mutant(
        "names: two columns that Delta cannot tell apart are refused",
        f"{PACKAGE}/planning/lake_names.py",
        """if len(group) > 1]""",
        """if len(group) > 2]""",
        "tests/unit/jobs/test_names_end_to_end.py::test_names_that_differ_by_case_only",
    ),
    Mutant(
        "state: the commit is made with the handle that was decided on",
        f"{PACKAGE}/lake/bronze.py",
        """self.table.create_write_transaction(""",
        """DeltaTable(self.location.uri).create_write_transaction(""",
        RACES,
    ),
    Mutant(
        "state: a snapshot that is stored is kept",
        f"{PACKAGE}/planning/commit_decision.py",
        """if stored is not None and (stored >= snapshot or not resnapshot):""",
        """if stored is not None and stored >= snapshot:""",
        RACES,
    ),
    Mutant(
        "state: an older resnapshot never replaces a newer one",
        f"{PACKAGE}/planning/commit_decision.py",
        """if stored is not None and (stored >= snapshot or not resnapshot):""",
        """if stored is not None and not resnapshot:""",
        RACES,
    ),
    Mutant(
        "state: a snapshot below the base is superseded",
        f"{PACKAGE}/planning/commit_decision.py",
        """        refuse_superseded(state, snapshot)
    return AddSnapshot(rebase)""",
        """        pass
    return AddSnapshot(rebase)""",
        f"{COMMIT}::test_a_base_that_moves_above_s_meanwhile_supersedes_it",
    ),
    Mutant(
        "state: coverage moves on a proven gap alone",
        f"{PACKAGE}/planning/commit_decision.py",
        """rebase = state.coverage is None or (gap and snapshot > state.coverage.changes)""",
        """rebase = state.coverage is None or snapshot > state.coverage.changes""",
        f"{COMMIT}::test_a_resnapshot_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "files: a file that is missing is not committed",
        f"{PACKAGE}/lake/staged_files.py",
        """            return _Problem(f"{file.path} is missing")""",
        """            size = file.size""",
        DAMAGED,
    ),
    Mutant(
        "files: a file of another size is not committed",
        f"{PACKAGE}/lake/staged_files.py",
        """if size != file.size:""",
        """if False:""",
        DAMAGED,
    ),
    Mutant(
        "files: a file with another number of rows is not committed",
        f"{PACKAGE}/lake/staged_files.py",
        """if footer.num_rows != file.rows:""",
        """if False:""",
        CLAIMED,
    ),
    Mutant(
        "files: a file of another snapshot is not committed",
        f"{PACKAGE}/lake/staged_files.py",
        """ or not file.path.startswith(f"{snapshot.text}-"):""",
        """:""",
        CLAIMED,
    ),
    Mutant(
        "files: a file of other columns is not committed",
        f"{PACKAGE}/lake/staged_files.py",
        """return _Problem(f"{file.path}: {difference}", drift=True) if difference else footer""",
        """return footer""",
        f"{STAGED}::test_a_file_of_other_columns_is_drift",
    ),
    Mutant(
        "changes: a window is committed at the position it started from alone",
        f"{PACKAGE}/lake/changes.py",
        """            *_moved(bronze, window),
            *_batch_transactions(bronze, batch),
""",
        """            *lsn_transactions(CHANGES, window.until),
            Transaction(BATCH, batch),
""",
        f"{CHANGES}::test_two_runs_at_once_add_every_change_once",
    ),
    Mutant(
        "changes: the low watermark is asked for again after the read",
        f"{PACKAGE}/jobs/read_window.py",
        """refuse_gap(run, run.source.still_there(instance), position=window.after)""",
        """pass""",
        f"{CHANGES}::test_a_window_is_not_committed_when_cleanup_overtook_the_read",
    ),
    Mutant(
        "changes: the instance is still the one that the read began with",
        f"{PACKAGE}/jobs/change_source.py",
        """return self.reach(refreshed(self.session, instance))""",
        """return self.reach(instance)""",
        f"{CHANGE_GUARDS}::test_an_instance_made_again_while_it_is_read_commits_nothing",
    ),
    Mutant(
        "changes: a gap is not stepped over",
        f"{PACKAGE}/planning/windows.py",
        """return position.incremented() >= self.low""",
        """return True""",
        f"{CHANGE_GUARDS}::test_a_gap_is_recorded_refused_and_moves_nothing",
    ),
    Mutant(
        "changes: an empty range is never sent",
        f"{PACKAGE}/jobs/extend_changes.py",
        """return reading if reading.until > position else None""",
        """return reading""",
        f"{CHANGES}::test_a_second_run_reads_no_change_twice_and_commits_nothing",
    ),
    Mutant(
        "changes: a position ahead of the server is refused",
        f"{PACKAGE}/jobs/gaps.py",
        """if position > reached:""",
        """if False:""",
        f"{CHANGE_GUARDS}::test_a_restored_database_that_is_behind_the_position_is_refused",
    ),
    Mutant(
        "changes: a replica that is behind is tried again",
        f"{PACKAGE}/jobs/gaps.py",
        """if is_read_only(run.session):""",
        """if False:""",
        f"{CHANGE_GUARDS}::test_a_replica_that_is_behind_is_tried_again",
    ),
    Mutant(
        "changes: an LSN given out again is noticed by its commit time",
        f"{PACKAGE}/planning/windows.py",
        """return (recorded - mapped) % _QUARTER_HOUR == timedelta()""",
        """return True""",
        f"{CHANGE_GUARDS}::test_a_restored_database_that_has_overtaken_the_position_is_refused",
    ),
    Mutant(
        "changes: below a newer instance's start capture itself is the bound",
        f"{PACKAGE}/planning/windows.py",
        """end = min(bound, configured.low.decremented(), bridge.captured or position)""",
        """end = min(bound, configured.low.decremented())""",
        f"{CHANGE_GUARDS}::test_below_the_newer_instances_start_nothing_is_taken_for_read_before_capture_was_there",
    ),
    Mutant(
        "changes: windows are cut where the newer instance begins",
        f"{PACKAGE}/planning/windows.py",
        """    if configured.keeps(position):
        return Reading(""",
        """    if True:
        return Reading(""",
        f"{WINDOWS}::test_the_instance_that_leads_on",
    ),
    Mutant(
        "changes: without coverage nothing is read",
        f"{PACKAGE}/jobs/extend_changes.py",
        """if not request.start_now and (bronze is None or bronze.state.coverage is None):""",
        """if False:""",
        f"{CHANGES}::test_without_a_snapshot_a_run_is_skipped_and_says_what_is_missing",
    ),
    Mutant(
        "changes: a facts row that is missing is written again",
        f"{PACKAGE}/jobs/extend_changes.py",
        """        write_missing_facts(run)
""",
        """        pass
""",
        f"{CHANGES}::test_a_facts_row_that_was_not_written_comes_with_the_next_run",
    ),
    Mutant(
        "repairs: committed on the very version they were worked out on",
        f"{PACKAGE}/lake/bronze.py",
        """max_commit_retries=None if overtaken else 0""",
        """max_commit_retries=None""",
        f"{CHANGES}::test_a_repair_meanwhile_overtaken_by_an_optimize_doubles_nothing",
    ),
    Mutant(
        "repairs: rows of snapshots stay",
        f"{PACKAGE}/lake/repairs.py",
        """_FIRST_CHANGE = 1""",
        """_FIRST_CHANGE = 0""",
        f"{CHANGES}::test_a_repair_leaves_the_rows_of_snapshots_as_they_are",
    ),
    Mutant(
        "repairs: changes outside the window stay",
        f"{PACKAGE}/lake/repairs.py",
        """until = pc.less_equal(lsns, window.until.text)""",
        """until = pc.is_valid(lsns)""",
        f"{CHANGES}::test_a_repair_replaces_exactly_its_rows",
    ),
    Mutant(
        "intervals: one whose commits are forgotten is not repaired",
        f"{PACKAGE}/planning/intervals.py",
        """if lower is None and not base_kept:""",
        """if False:""",
        f"{INTERVALS}::test_what_a_run_does_with_its_interval",
    ),
    Mutant(
        "intervals: in the repeated hour no earlier commit is cut off",
        f"{PACKAGE}/planning/intervals.py",
        """if begins < local < ends or (local == begins and at >= after):""",
        """if False:""",
        f"{INTERVALS}::test_the_cut_never_goes_back_and_never_cuts_off_an_earlier_commit",
    ),
    Mutant(
        "schema: a column that CDC does not record is never filled with NULL",
        f"{PACKAGE}/planning/schema_changes.py",
        """    if lost:
""",
        """    if False:
""",
        f"{CHANGE_GUARDS}::test_a_column_dropped_and_added_again_stops",
    ),
    Mutant(
        "schema: a new column is accepted on purpose or not at all",
        f"{PACKAGE}/planning/schema_changes.py",
        """if added and not accept_nulls:""",
        """if False:""",
        f"{CHANGE_GUARDS}::test_a_column_that_the_newer_instance_adds_stops_where_it_begins",
    ),
    Mutant(
        "capture: a look at the server never holds up the event loop",
        f"{PACKAGE}/triggers/capture.py",
        """await asyncio.to_thread(self._look, connection)""",
        """self._look(connection)""",
        f"{TRIGGER}::test_a_server_that_says_nothing_does_not_hold_up_the_event_loop",
    ),
    Mutant(
        "chunked: the session that reads a wave has passed S",
        f"{PACKAGE}/jobs/stage_wave.py",
        """if stamp < plan.snapshot:""",
        """if False:""",
        f"{CHUNKED}::test_a_server_that_is_behind_s_is_not_read",
    ),
    Mutant(
        "chunked: a wave is not read when changes above the position are purged",
        f"{PACKAGE}/jobs/stage_wave.py",
        """    refuse_lost_changes(session, instance, state=bronze.state, label=label)""",
        """    pass""",
        f"{CHUNKED}::test_a_wave_is_not_read_when_changes_above_the_position_are_purged",
    ),
    Mutant(
        "chunked: a wave is not committed when they were purged meanwhile",
        f"{PACKAGE}/jobs/read_wave.py",
        """        refuse_lost_changes(session, instance, state=bronze.reload().state, label=label)""",
        """        bronze.reload()""",
        f"{CHUNKED}::test_a_wave_is_not_committed_when_they_are_purged_while_it_is_read",
    ),
    Mutant(
        "chunked: an opening moves coverage on a gap alone",
        f"{PACKAGE}/planning/opening.py",
        """state.coverage is None or (gap and snapshot > state.coverage.changes)""",
        """state.coverage is None or snapshot > state.coverage.changes""",
        f"{WAVES}::test_an_open_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "chunked: the gap is proven for the position that bronze still has",
        f"{PACKAGE}/lake/opens.py",
        """gap = state.coverage is not None and state.coverage.changes == gap_position""",
        """gap = gap_position is not None""",
        f"{WAVES}::test_an_open_moves_coverage_only_on_a_gap_proven_for_the_position",
    ),
    Mutant(
        "chunked: an opening is above every S in bronze",
        f"{PACKAGE}/planning/opening.py",
        """if state.newest is not None and snapshot <= state.newest:""",
        """if False:""",
        f"{WAVES}::test_a_resnapshot_that_was_overtaken_records_a_later_lsn",
    ),
    Mutant(
        "chunked: a wave of a superseded snapshot is not committed",
        f"{PACKAGE}/lake/waves.py",
        """        refuse_ended(bronze.state, snapshot)""",
        """        pass""",
        f"{WAVES}::test_a_base_that_moves_meanwhile_keeps_an_open_and_a_completion_out",
    ),
    Mutant(
        "chunked: a superseded snapshot is not completed",
        f"{PACKAGE}/planning/opening.py",
        """    refuse_ended(state, snapshot)
    return AddSnapshot""",
        """    return AddSnapshot""",
        f"{WAVES}::test_a_base_that_moves_meanwhile_keeps_an_open_and_a_completion_out",
    ),
    Mutant(
        "chunked: an abandoned snapshot takes nothing more",
        f"{PACKAGE}/planning/opening.py",
        """if not complete and state.abandoned is not None and snapshot <= state.abandoned:""",
        """if False:""",
        f"{WAVES}::test_an_abandoned_snapshot_takes_nothing_more_and_a_complete_one_is_left_alone",
    ),
    Mutant(
        "chunked: a wave lands once",
        f"{PACKAGE}/lake/waves.py",
        """if (theirs := landed_wave(bronze.table, snapshot, wave)) is not None:""",
        """if (theirs := landed_wave(bronze.table, snapshot, wave)) and False:""",
        f"{WAVES}::test_a_wave_lands_once_whoever_brings_it_again",
    ),
    Mutant(
        "chunked: two processes with the same wave conflict",
        f"{PACKAGE}/lake/waves.py",
        """                Transaction(wave_app_id(snapshot, wave), rows),
                *horizon_transactions(snapshot, horizon, wave=wave),""",
        """""",
        f"{WAVES}::test_two_processes_that_bring_the_same_wave_leave_its_rows_once",
    ),
    Mutant(
        "chunked: files that a commit names after all are kept",
        f"{PACKAGE}/lake/cleanup.py",
        """for name in names if name not in named)""",
        """for name in names)""",
        f"{WAVES}::test_files_whose_commit_seemed_to_fail_and_did_not_are_kept",
    ),
    Mutant(
        "chunked: a snapshot with a missing wave is not complete",
        f"{PACKAGE}/lake/commit.py",
        """        refuse_missing(missing_waves(waves, landed), snapshot=snapshot, waves=waves)
""",
        """""",
        f"{WAVES}::test_waves_and_completion_tell_rows_and_the_latest_horizon",
    ),
    Mutant(
        "chunked: the horizon is the latest over all waves",
        f"{PACKAGE}/lake/commit.py",
        """horizon=latest_horizon(landed.values()),""",
        """horizon=latest_horizon(list(landed.values())[-1:]),""",
        f"{WAVES}::test_waves_and_completion_tell_rows_and_the_latest_horizon",
    ),
    Mutant(
        "chunked: the last chunk ends at MAX",
        f"{PACKAGE}/model/chunk_plan.py",
        """return KeyRange(lower, highest, closed=highest is not None)""",
        """return KeyRange(lower)""",
        f"{CHUNKED}::test_the_last_chunk_ends_at_the_key_that_was_the_last_after_s",
    ),
    Mutant(
        "chunked: rows that equal MAX are in the last chunk",
        f"{PACKAGE}/tsql/predicates.py",
        """if key_range.closed and upper is not None:""",
        """if False:""",
        f"{CLOSED}::test_every_row_up_to_the_last_key_is_in_one_chunk_and_no_other_is",
    ),
    Mutant(
        "chunked: bounds are looked for up to MAX",
        f"{PACKAGE}/tsql/keys.py",
        """    if upper is not None:""",
        """    if False:""",
        f"{CLOSED}::test_seeks_end_at_the_last_key_whatever_lies_above",
    ),
    Mutant(
        "chunked: slices are whole numbers, however wide",
        f"{PACKAGE}/tsql/keys.py",
        """CAST({int(width)} AS bigint)""",
        """{int(width)}""",
        "tests/properties/test_chunk_plans_server.py::test_a_wrong_estimate_changes_nothing_in_correctness",
    ),
    Mutant(
        "chunked: an abandoning and a completion exclude each other",
        f"{PACKAGE}/lake/opens.py",
        """[*lsn_transactions(ABANDONED, unfinished), *lsn_transactions(BASE, coverage.base)]""",
        """lsn_transactions(ABANDONED, unfinished)""",
        f"{WAVES}::test_of_an_abandoning_and_a_completion_at_once_the_first_is_what_both_find",
    ),
    Mutant(
        "chunked: of two planners one stores",
        f"{PACKAGE}/lake/plans.py",
        """if _count(table, snapshot) != expected or table.transaction_version(_waves_app_id(snapshot)):""",
        """if False:""",
        f"{PLANS}::test_whoever_was_overtaken_writes_nothing",
    ),
    Mutant(
        "changes: files that another's tidying took are staged again, under the next number",
        f"{PACKAGE}/lake/retries.py",
        """            if missed or reload is None:""",
        """            if True:""",
        f"{CHANGES}::test_what_a_runs_next_try_tidies_up_is_read_again_by_whoever_staged_it",
    ),
    Mutant(
        "chunked: a snapshot from which no change can lead is not complete",
        f"{PACKAGE}/jobs/complete_waves.py",
        """        refuse_lost_changes(session, instance, state=bronze.state, label=table.label)
""",
        "",
        f"{CHUNKED}::test_a_snapshot_from_which_no_change_can_lead_is_not_complete",
    ),
    Mutant(
        "an answer that ended early is taken for nothing else",
        f"{PACKAGE}/source/mssql_python.py",
        """        if not results or results.pop()[0] != [ENDED]:""",
        """        if False:""",
        "tests/unit/jobs/test_early_ends.py::"
        "test_a_connection_that_goes_at_any_statement_costs_a_try_and_is_taken_for_nothing_else",
    ),
    Mutant(
        "P5 silver drops the keys that have gone",
        f"{PACKAGE}/planning/image_choice.py",
        """GONE = (DELETE, BEFORE)""",
        """GONE = (DELETE,)""",
        f"{MERGE}::test_each_order_of_changes_leaves_what_the_source_has",
    ),
    Mutant(
        "silver: rows of a key in order of commit, command, sequence, operation",
        f"{PACKAGE}/planning/image_choice.py",
        """ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")""",
        """ORDER = ("_start_lsn", "_seqval", "_command_id", "_operation")""",
        f"{MERGE}::test_each_order_of_changes_leaves_what_the_source_has",
    ),
    Mutant(
        "silver: an image is the latest of all changes, not of the new ones",
        f"{PACKAGE}/lake/silver/change_rows.py",
        """_changes(bronze, changed_files(bronze, above), columns""",
        """_changes(bronze, changed_files(bronze, above)[:1], columns""",
        f"{MERGE}::test_a_late_window_brings_no_deleted_key_back",
    ),
    Mutant(
        "silver: a change at or below the snapshot names no key",
        f"{PACKAGE}/lake/silver/merge.py",
        """key=silver.key, above=request.snapshot)""",
        """key=silver.key, above=Lsn(1))""",
        f"{MERGE}::test_rows_below_the_snapshot_name_no_key",
    ),
    Mutant(
        "silver: a row that is later than its key's last change stays",
        f"{PACKAGE}/lake/silver/overlay.py",
        """later = pc.greater(rows.column("_start_lsn"), pc.take(self._lsns, positions))""",
        """later = pc.equal(pc.take(self._lsns, positions), "")""",
        f"{MERGE}::test_a_row_of_a_chunk_is_kept_where_it_is_later_than_its_keys_last_change",
    ),
    Mutant(
        "silver: a row without a key is refused",
        f"{PACKAGE}/lake/silver/change_rows.py",
        """        _refuse_nulls(rows, key, where=str(bronze.location))""",
        """        pass""",
        f"{MERGE}::test_a_key_that_is_null_in_a_change_row_is_refused",
    ),
    Mutant(
        "a whole snapshot is not put beside waves of the same LSN",
        f"{PACKAGE}/lake/commit.py",
        """if was_opened(bronze.table, snapshot) or bronze.state.open == snapshot:""",
        """if bronze.state.open == snapshot:""",
        f"{WAVES}::test_a_whole_snapshot_of_the_same_lsn_is_not_put_beside_its_waves",
    ),
    Mutant(
        "P3 quiet commits that fill a window do not hold the position up",
        f"{PACKAGE}/jobs/extend_changes.py",
        """while not rows.files and rows.window.until < window.until""",
        """while False and rows.window.until < window.until""",
        f"{CHANGES}::test_a_change_behind_more_quiet_commits_than_a_window_holds_is_read",
    ),
    Mutant(
        "silver: the position moves by compare-and-set",
        f"{PACKAGE}/lake/silver/merge.py",
        """if silver.position != request.decided_on:""",
        """if False:""",
        f"{POSITION}::test_of_two_merges_one_wins_and_nothing_is_doubled",
    ),
    Mutant(
        "silver: a merge is committed on the version that it was worked out on",
        f"{PACKAGE}/lake/silver/table.py",
        """max_commit_retries=0,""",
        """max_commit_retries=15,""",
        f"{POSITION}::test_of_two_merges_one_wins_and_nothing_is_doubled",
    ),
    Mutant(
        "silver: a rebuild empties it when the source is empty and not otherwise",
        f"{PACKAGE}/lake/silver/merge.py",
        """if not staged and any(file.rows for file in current_files(silver)):""",
        """if False:""",
        f"{POSITION}::test_a_rebuild_that_would_empty_a_filled_silver_asks_the_source_first",
    ),
    Mutant(
        "silver: a newer snapshot replaces every row",
        f"{PACKAGE}/planning/merge_decision.py",
        """if position.snapshot != snapshot:""",
        """if False:""",
        f"{POSITION}::test_a_newer_snapshot_replaces_every_row_in_one_commit",
    ),
    Mutant(
        "silver: versions of another bronze are not counted on",
        f"{PACKAGE}/planning/merge_decision.py",
        """if position.bronze != bronze:""",
        """if False:""",
        f"{POSITION}::test_a_bronze_that_was_made_anew_at_the_same_place_is_noticed",
    ),
    Mutant(
        "silver: rows that an OPTIMIZE moved before they were merged are found",
        f"{PACKAGE}/lake/added_files.py",
        """                self.moved[path] = rearranged""",
        """                self.added.pop(path, None)""",
        f"{POSITION}::test_rows_that_were_optimized_before_they_were_merged_are_merged",
    ),
    Mutant(
        "silver: what bronze's log has forgotten is made good by a rebuild",
        f"{PACKAGE}/lake/added_files.py",
        """    if storage.size(name) is None:""",
        """    if False:""",
        f"{POSITION}::test_a_version_that_the_log_no_longer_holds_is_made_good_by_a_rebuild_that_says_so",
    ),
    Mutant(
        "silver: a RESTORE that took rows back is made good by a rebuild",
        f"{PACKAGE}/lake/silver/table.py",
        """restore = restore_below_ours(table) if self.position else None""",
        """restore = None""",
        f"{POSITION}::test_a_restore_that_took_silvers_rows_back_is_noticed",
    ),
    Mutant(
        "silver: one table belongs to one source",
        f"{PACKAGE}/lake/silver/table.py",
        """if silver.identity != bronze.identity:""",
        """if False:""",
        f"{POSITION}::test_a_silver_of_another_source_is_refused",
    ),
    Mutant(
        "silver: a key whose seventh digit was cut is refused",
        f"{PACKAGE}/planning/silver_key.py",
        """return cut and column.lake.data_type.startswith("timestamp")""",
        """return False""",
        "tests/unit/planning/test_silver_key.py::test_a_key_whose_digits_are_cut_is_refused",
    ),
    Mutant(
        "silver: it says that it is the source when changes have passed the horizon",
        f"{PACKAGE}/planning/horizon.py",
        """if stamp.lsn > horizon.lsn and stamp.time > needed:""",
        """if stamp.lsn > horizon.lsn:""",
        "tests/unit/planning/test_horizon.py::test_both_the_lsn_and_the_time_have_to_be_passed",
    ),
    Mutant(
        "silver: a merge opens the files that can hold its keys and no others",
        f"{PACKAGE}/lake/silver/files.py",
        """        if keys.may_be_within(file.bounds):""",
        """        if True:""",
        f"{COSTS}::test_files_that_cannot_hold_a_changed_key_are_not_even_opened",
    ),
    Mutant(
        "it survives: rows that end early are not taken for the end of a range",
        f"{PACKAGE}/source/reader.py",
        """    if sent == rows:""",
        """    if True:""",
        f"{EARLY}::test_a_range_whose_rows_end_early_is_read_again_as_a_whole",
    ),
    Mutant(
        "it survives: the session answers once more after the last row",
        f"{PACKAGE}/jobs/read_range.py",
        """        after = horizon(session, source.description.instance)""",
        """        after = None""",
        f"{EARLY}::test_a_connection_that_goes_between_the_last_row_and_the_horizon_is_noticed_by_the_horizon",
    ),
    Mutant(
        "it survives: what no retry mends is not retried",
        f"{PACKAGE}/operators/_base.py",
        """            if exc.retryable:""",
        """            if True:""",
        f"{DAG_ERRORS}::test_airflow_tries_again_what_is_retryable_and_nothing_else",
    ),
    Mutant(
        "it survives: a task that was told to stop opens no session",
        f"{PACKAGE}/operators/_base.py",
        """        if self._stopped:""",
        """        if False:""",
        f"{DAG_ERRORS}::test_a_task_that_was_told_to_stop_opens_no_session_any_more",
    ),
    Mutant(
        "it survives: a statement of a task that ran too long is ended on the server",
        f"{PACKAGE}/source/sockets.py",
        """                self._socket.shutdown(socket.SHUT_RDWR)""",
        """                pass""",
        f"{DAG_ERRORS}::test_a_task_that_runs_too_long_ends_its_query_on_the_server_and_its_files_go_with_the_next_commit",
    ),
    Mutant(
        "it survives: a commit that lost is decided anew",
        f"{PACKAGE}/lake/retries.py",
        """            if number == tries:""",
        """            if True:""",
        f"{S3}::test_a_commit_that_loses_twenty_times_or_whose_answer_is_lost_lands_once",
    ),
    Mutant(
        "it survives: unsafe rename is refused",
        f"{PACKAGE}/lake/location.py",
        """if key.lower().endswith(_UNSAFE_RENAME) and""",
        """if False and""",
        f"{S3}::test_unsafe_rename_is_refused_before_anything_is_read_or_written",
    ),
    Mutant(
        "it survives: what a killed merge left goes with its next try",
        f"{PACKAGE}/jobs/merge_silver.py",
        """        remove_orphans(silver, run=order.attempt.run, up_to=commit.position.version)""",
        """        pass""",
        "tests/dags/test_s3_silver.py::test_what_a_killed_merge_left_is_removed_by_its_next_try",
    ),
    Mutant(
        "it survives: a deferred task does not go on before the scheduler has noted its deferral",
        f"{PACKAGE}/triggers/capture.py",
        """            await asyncio.sleep(self._pause_before(deadline))""",
        """            pass""",
        f"{TRIGGER}::test_no_event_comes_before_a_pause_which_the_deadline_ends",
    ),
    Mutant(
        "security: what the server quotes is blotted out",
        f"{PACKAGE}/source/errors.py",
        """    if not rule.names_only:""",
        """    if False:""",
        f"{SECRETS}::test_what_the_server_quotes_in_an_error_is_not_in_the_task_s_log",
    ),
    Mutant(
        "security: storage options are in no repr",
        f"{PACKAGE}/table.py",
        """    storage_options: Mapping[str, str] | None = field(default=None, repr=False)""",
        """    storage_options: Mapping[str, str] | None = field(default=None)""",
        f"{SECRETS}::test_neither_credentials_nor_values_are_in_what_airflow_and_the_facts_keep",
    ),
    Mutant(
        "security: a template that was not rendered is in no link",
        f"{PACKAGE}/operators/links.py",
        """and not _is_unrendered(table)""",
        """and True""",
        "tests/unit/operators/test_links.py::test_a_template_that_was_not_rendered_is_never_part_of_it",
    ),
)
