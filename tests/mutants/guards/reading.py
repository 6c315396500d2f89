"""Guards of reading: the order of a snapshot, its key ranges, its values and names."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TILES = "tests/properties/test_key_ranges.py::test_every_row_is_in_exactly_one_piece_of_exactly_one_range"
BOUNDS = "tests/contract/test_portable_keys.py::test_a_bound_finds_the_row_that_it_was_rendered_from"
SEEKS = "tests/scenarios/test_ranges_seek.py::test_every_row_is_read_once_and_no_range_visits_anothers_rows"
ORDER = "tests/scenarios/test_order_of_a_snapshot.py"

HALVES = "tests/unit/jobs/test_half_pairs.py"
ENGINES = "tests/unit/jobs/test_other_engines.py"

MUTANTS = (
    Mutant(
        "P6 half a surrogate pair is read as what it is",
        "_projected",
        """sql_type.name in {"nchar", "nvarchar"}""",
        "False",
        f"{HALVES}::test_half_a_pair_is_an_error_that_names_its_column_in_snapshot_and_changes",
    ),
    Mutant(
        "P6 half a surrogate pair bounds no range",
        "key_text",
        """sql_type.name in {"nchar", "nvarchar"}""",
        "False",
        f"{HALVES}::test_a_key_with_half_a_pair_bounds_no_range",
    ),
    Mutant(
        "P6 a snapshot reads texts as the engine gives them",
        "_columns",
        "utf16=utf16",
        "utf16=True",
        f"{ENGINES}::test_a_snapshot_and_its_changes_hold_every_text_and_the_log_says_what_is_not_noticed",
    ),
    Mutant(
        "P6 changes are read as the engine gives texts",
        "described_columns",
        "utf16=session.utf16",
        "utf16=True",
        f"{ENGINES}::test_a_snapshot_and_its_changes_hold_every_text_and_the_log_says_what_is_not_noticed",
    ),
    Mutant(
        "P6 keys come as the engine gives texts",
        "key_text",
        "column.utf16",
        "True",
        f"{ENGINES}::test_waves_and_ranges_over_a_text_key_hold_every_row",
    ),
    Mutant(
        "P6 the log says that half pairs are not noticed",
        "_judge",
        "state.utf16 != 1",
        "False",
        f"{ENGINES}::test_a_snapshot_and_its_changes_hold_every_text_and_the_log_says_what_is_not_noticed",
    ),
    Mutant(
        "P1 the session that reads has passed the stamp",
        "_check_stamp",
        "found.reached < planned.snapshot",
        "False",
        f"{ORDER}::test_a_server_that_is_behind_the_stamp_is_not_read",
    ),
    Mutant(
        "P2 a resnapshot is above every S in bronze",
        "record_snapshot",
        "newest is None or snapshot > newest",
        "True",
        f"{ORDER}::test_a_resnapshot_is_above_every_snapshot_in_bronze",
    ),
    Mutant(
        "P3 a snapshot that retention has passed is not read",
        "_check_stamp",
        "refuse_unretained(found.low, position=planned.snapshot, label=table.label)",
        "pass",
        f"{ORDER}::test_a_snapshot_that_retention_has_passed_is_not_read",
    ),
    Mutant(
        "P3 a snapshot that retention has passed is not committed",
        "_commit",
        "refuse_unretained(found.low, position=plan.snapshot, label=table.label)",
        "pass",
        f"{ORDER}::test_a_snapshot_that_retention_has_passed_is_not_committed",
    ),
    Mutant(
        "P3 the LSN below an instance's first one is retained",
        "is_retained",
        "position.incremented()",
        "position",
        f"{ORDER}::test_a_new_instance_is_loaded_before_capture_has_reached_it",
    ),
    Mutant(
        "P4 S is recorded before the key is measured",
        "plan_snapshot",
        "facts = _plan_row(bronze, snapshot, source=source, session=session, ranges=ranges)",
        """\
snapshot = now(session, source.description.instance)
facts = _plan_row(bronze, snapshot, source=source, session=session, ranges=ranges)
""",
        f"{ORDER}::test_s_is_recorded_before_the_key_is_measured",
    ),
    Mutant(
        "P4 every range of the plan is there",
        "_problem",
        "range(count)",
        "indexes",
        f"{ORDER}::test_a_range_that_is_missing_keeps_the_whole_snapshot_out",
    ),
    Mutant(
        "P5 a before-image takes its key away",
        "_after",
        "row['_operation'] in (1, 3)",
        "row['_operation'] == 1",
        f"{ORDER}::test_rows_that_change_while_they_are_read_end_as_the_source_has_them",
    ),
    Mutant(
        "P4 the upper end of a range is open",
        "_Edge.below",
        "self._compare(index, '<')",
        "self._compare(index, '<=')",
        TILES,
    ),
    Mutant(
        "P4 the lower end of a range is closed",
        "_Edge.at_least",
        "self._compare(index, '>=')",
        "self._compare(index, '>')",
        TILES,
    ),
    Mutant(
        "P4 NULL sorts below every value",
        "_Edge.below",
        "not (nulls and self.columns[index].nullable)",
        "True",
        TILES,
    ),
    Mutant(
        "P4 texts that differ may be one key for the server",
        "_between",
        "not _may_be_equal(lower, upper, shared)",
        "True",
        TILES,
    ),
    Mutant(
        "P4 a bound has the column's declared type",
        "typed_bound",
        "BoundText(f'CAST({marker.text} AS {sql_type.declaration})', marker.parameters)",
        "marker",
        "tests/unit/tsql/test_golden.py::test_a_statement_is_the_one_that_was_reviewed",
    ),
    Mutant(
        "P4 a bound of a char column is of its type",
        "_char_bound",
        "BoundText(f'CAST({text.text}{collate} AS {sql_type.declaration})', text.parameters)",
        "text",
        SEEKS,
    ),
    Mutant(
        "P4 a bound of a binary column is binary",
        "typed_bound",
        "f'CONVERT({sql_type.declaration}, {marker.text}, 1)'",
        "f'CAST({marker.text} AS {sql_type.declaration})'",
        BOUNDS,
    ),
    Mutant(
        "P4 a bound of a char column has its collation",
        "_char_bound",
        "f' COLLATE {sql_type.collation}' if sql_type.collation else ''",
        "''",
        SEEKS,
    ),
    Mutant(
        "P4 a text that would come back as another one is no bound",
        "_unicode_text",
        "not collation.startswith(_MULTI_BYTE)",
        "True",
        "tests/unit/tsql/test_bounds.py::"
        "test_a_text_of_a_multi_byte_code_page_is_marked_when_it_would_not_come_back",
    ),
    Mutant(
        "P4 a range is counted again",
        "verify_count",
        "counted == rows",
        "True",
        "tests/unit/jobs/test_recounted.py::test_a_row_that_was_not_read_fails_the_range",
    ),
    Mutant(
        "P4 a value that repeats is never split between ranges",
        "next_bound",
        "row is not None and int(row['is_lower']) == 1",
        "False",
        "tests/properties/test_key_ranges_seeks.py::test_planned_bounds_rise_and_their_ranges_tile_the_table",
    ),
    Mutant(
        "values: a cast never cuts",
        "_whole",
        "limit is None",
        "True",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_value_that_a_cast_would_cut_or_cannot_convert_names_column_table_and_range",
    ),
    Mutant(
        "values: a masked column is refused unless it is allowed",
        "_refusal",
        "column.masked and column.name not in allow",
        "False",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_masked_column_is_refused_until_it_is_allowed_or_unmasked",
    ),
    Mutant(
        "values: a table under row-level security is refused unless it is allowed",
        "_table_problems",
        "facts.row_level_security and ROW_LEVEL_SECURITY not in allow",
        "False",
        "tests/unit/jobs/test_veiled_columns.py::"
        "test_a_table_under_row_level_security_is_refused_unless_it_is_allowed",
    ),
    Mutant(
        "names: two columns that Delta cannot tell apart are refused",
        "indistinct",
        "len(group) > 1",
        "len(group) > 2",
        "tests/unit/jobs/test_names_end_to_end.py::test_names_that_differ_by_case_only",
    ),
)
