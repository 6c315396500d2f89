"""The statements as a reviewer reads them: one file each, under ``golden/``.

``UPDATE_GOLDEN=1 pytest tests/unit/tsql/test_golden.py`` writes the files again; then look at the diff.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import CodeType, FrameType

import pytest

from airflow_provider_mssql_cdc import tsql
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.key_range import KeyRange
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.planning.types import plan_columns
from airflow_provider_mssql_cdc.tsql import catalog, cdc, session, snapshot, statement
from airflow_provider_mssql_cdc.tsql.statement import Statement
from tests.support.tables import HOSTILE, ORDERS, column

GOLDEN = Path(__file__).parent / "golden"

ID = (column("id", "bigint"),)
CODE_NUMBER = (column("code", "varchar(20)"), column("n", "int"))
COMPANY_ENTRY_LINE = (
    column("company", "int"),
    column("entry", "datetime2(7)"),
    column("line", "smallint", nullable=True),
)
NULLABLE = (column("region", "nvarchar(40)", nullable=True), column("stamp", "rowversion"))
EVERY_TYPE = tuple(
    column(f"c {declared}", declared)
    for declared in (
        "bit tinyint smallint int bigint decimal(38,10) money smallmoney real float date datetime "
        "smalldatetime datetime2(7) datetimeoffset(3) time(7) char(5) varchar(20) varchar(max) nchar(5) "
        "nvarchar(20) nvarchar(max) text ntext xml uniqueidentifier binary(8) varbinary(20) image rowversion"
    ).split()
)
OTHER_ENGINE = tuple(
    column(f"c {declared}", declared, utf16=False)
    for declared in ("varchar(20)", "nchar(5)", "nvarchar(20)", "nvarchar(max)", "ntext", "geography")
)
AWKWARD = (column("Entry No_", "int"), column("100% ]x[", "money"), column("a_x0020_b", "time(3)"))
CASTS = {
    "loc": "varchar(max)",
    "at": "varchar(27)",
    "price": "decimal(10, 2)",
    "guid": "binary(16)",
    "when": "datetime2(3)",
}
CAST_COLUMNS = (
    column("loc", "geography"),
    column("at", "datetime2(7)"),
    column("price", "money"),
    column("guid", "uniqueidentifier"),
    column("when", "varchar(30)"),
)
S = Lsn.parse("0x00000025000005A80003")
E = Lsn.parse("0x00000025000006100001")
ZONE = cdc.ServerZone("W. Europe Standard Time")


def select(split_by, lower, upper, columns=ID, table=ORDERS, casts=None) -> Statement:
    planned = plan_columns(columns, casts or {}).columns
    return snapshot.select_range(table, planned, split_by, KeyRange(lower, upper))


def seek(columns, lower, depth, inclusive=True) -> Statement:
    statement = snapshot.seek_key(
        ORDERS, columns, lower=lower, depth=depth, rows=1000001, inclusive=inclusive
    )
    assert statement is not None
    return statement


STATEMENTS: dict[str, Callable[[], Statement]] = {
    "select_whole_table": lambda: select((), None, None),
    "select_every_type": lambda: select((), None, None, columns=EVERY_TYPE),
    "select_texts_of_another_engine": lambda: select(
        (), None, None, columns=OTHER_ENGINE, casts={"c geography": "varchar(20)"}
    ),
    "select_with_casts": lambda: select((), None, None, columns=CAST_COLUMNS, casts=CASTS),
    "select_with_casts_that_might_cut": lambda: select(
        (),
        None,
        None,
        columns=(column("loc", "geography"), column("name", "nvarchar(40)"), column("raw", "varbinary(40)")),
        casts={"loc": "varchar(100)", "name": "varchar(10)", "raw": "binary(8)"},
    ),
    "select_a_name_that_grows_too_long": lambda: select((), None, None, columns=(column("a b" * 40, "int"),)),
    "select_awkward_names": lambda: select(
        AWKWARD[:2], ("1", "-0.0500"), ("2", "7.0000"), columns=AWKWARD, table=HOSTILE
    ),
    "select_first_range_integer": lambda: select(ID, None, ("1000001",)),
    "select_middle_range_integer": lambda: select(ID, ("1000001",), ("2000001",)),
    "select_last_range_integer": lambda: select(ID, ("2000001",), None),
    "select_composite": lambda: select(
        COMPANY_ENTRY_LINE,
        ("7", "2024-01-01 00:00:00.0000001", None),
        ("9", "2024-03-01 12:30:00.9999999", "4"),
    ),
    "select_composite_shared_prefix": lambda: select(
        COMPANY_ENTRY_LINE,
        ("7", "2024-01-01 00:00:00.0000001", None),
        ("7", "2024-03-01 12:30:00.9999999", "4"),
    ),
    "select_composite_last_column": lambda: select(
        COMPANY_ENTRY_LINE,
        ("7", "2024-01-01 00:00:00.0000001", "3"),
        ("7", "2024-01-01 00:00:00.0000001", "4"),
    ),
    "select_composite_first_range": lambda: select(
        COMPANY_ENTRY_LINE, None, ("7", "2024-01-01 00:00:00.0000001", "3")
    ),
    "select_composite_last_range": lambda: select(
        COMPANY_ENTRY_LINE, ("7", "2024-01-01 00:00:00.0000001", "3"), None
    ),
    "select_text_that_may_be_equal": lambda: select(CODE_NUMBER, ("n", "3"), ("N", "8")),
    "select_nullable_between": lambda: select(
        NULLABLE, (None, "0x00000000000007D1"), ("Süd", "0x00000000000007D2")
    ),
    "select_control_characters": lambda: select(NULLABLE, ("a\0b\\\nc", "0x00000000000007D1"), None),
    "select_keys_one_column": lambda: snapshot.select_keys(
        ORDERS, plan_columns(ID, {}, ()).columns, ID, [("1",), ("2",)]
    ),
    "select_keys_several_columns": lambda: snapshot.select_keys(
        ORDERS, plan_columns(CODE_NUMBER, {}, ()).columns, CODE_NUMBER, [("a", "3"), ("b'c", "8")]
    ),
    "count_range": lambda: snapshot.count_range(ORDERS, CODE_NUMBER, KeyRange(("a", "3"), ("b", "8"))),
    "key_ends_decimal": lambda: snapshot.key_ends(ORDERS, column("no", "decimal(20,0)")),
    "first_key": lambda: snapshot.first_key(ORDERS, COMPANY_ENTRY_LINE),
    "last_key": lambda: snapshot.first_key(ORDERS, COMPANY_ENTRY_LINE, descending=True),
    "seek_one_column": lambda: seek((column("at", "datetime"),), ("2024-01-01T00:00:00.003",), 0),
    "seek_deepest_piece": lambda: seek(COMPANY_ENTRY_LINE, ("7", "2024-01-01 00:00:00.0000001", "3"), 2),
    "seek_middle_piece": lambda: seek(COMPANY_ENTRY_LINE, ("7", "2024-01-01 00:00:00.0000001", "3"), 1),
    "seek_last_piece": lambda: seek(COMPANY_ENTRY_LINE, ("7", "2024-01-01 00:00:00.0000001", "3"), 0),
    "seek_above_a_null": lambda: seek(NULLABLE, (None, "0x00000000000007D1"), 0),
    "seek_texts_of_another_engine": lambda: seek(OTHER_ENGINE[1:3], ("a", "b"), 0),
    "seek_strictly_above": lambda: seek(CODE_NUMBER, ("n", "3"), 1, inclusive=False),
    "count_keys": lambda: snapshot.count_keys(ORDERS, CODE_NUMBER),
    "count_slices_integer": lambda: snapshot.count_slices(ORDERS, ID[0], lower="1", upper="900", width=100),
    "count_slices_date": lambda: snapshot.count_slices(
        ORDERS, column("day", "date"), lower="2024-01-01", upper="2024-12-31", width=7
    ),
    "space_used": lambda: catalog.space_used(HOSTILE),
    "database_facts": catalog.database_facts,
    "server_facts": catalog.server_facts,
    "table_by_name": lambda: catalog.table_by_name("dbo", "it's [orders]"),
    "table_by_id": lambda: catalog.table_of(581577110),
    "table_by_quoted_name": lambda: catalog.table_of("[dbo].[it's [orders]]]"),
    "tracked_tables": catalog.tracked_tables,
    "table_columns": lambda: catalog.table_columns(581577110),
    "table_columns_by_name": lambda: catalog.table_columns("[dbo].[100%]"),
    "code_page": lambda: catalog.code_page("Latin1_General_CS_AS"),
    "unique_indexes": lambda: catalog.unique_indexes(581577110),
    "row_level_security": lambda: catalog.row_level_security(581577110),
    "partitioning": lambda: catalog.partitioning(581577110),
    "column_permissions": lambda: catalog.column_permissions(HOSTILE.schema, HOSTILE.name, HOSTILE.object_id),
    "may_select_changes": lambda: catalog.may_select(cdc.change_table("dbo_100%")),
    "may_unmask": catalog.may_unmask,
    "role_membership": lambda: catalog.role_membership("cdc_reader"),
    "cdc_instances": cdc.instances,
    "cdc_instances_of_a_table": lambda: cdc.instances(("dbo", "it's [orders]")),
    "cdc_captured_columns": lambda: cdc.captured_columns("dbo_orders"),
    "cdc_ddl_history": lambda: cdc.ddl_history("dbo_orders"),
    "cdc_max_lsn": cdc.max_lsn,
    "cdc_min_lsn": lambda: cdc.min_lsn("dbo_orders"),
    "cdc_first_mapping_kept": lambda: cdc.first_mapping_kept("dbo_orders"),
    "cdc_first_mapping_kept_by_zone": lambda: cdc.first_mapping_kept("dbo_orders", ZONE),
    "cdc_read_horizon": cdc.read_horizon,
    "cdc_server_clock": cdc.server_clock,
    "cdc_server_zone": cdc.server_zone,
    "cdc_commit_time_by_offset": lambda: cdc.commit_time(S),
    "cdc_commit_time_by_zone": lambda: cdc.commit_time(S, ZONE),
    "cdc_history": lambda: cdc.history("dbo_orders", [S, E], ZONE),
    "cdc_newest_mapping": cdc.newest_mapping,
    "cdc_any_change": lambda: cdc.any_change("dbo_orders", after=S),
    "cdc_change_rows": lambda: cdc.change_rows(
        "dbo_orders", plan_columns(AWKWARD, {}).columns, after=S, until=E
    ),
    "cdc_change_rows_of_an_old_build": lambda: cdc.change_rows(
        "dbo_orders", plan_columns(ID, {}).columns, after=S, until=E, has_command_id=False
    ),
    "database_access": lambda: catalog.database_access("it's [here]"),
    "ends_within": lambda: snapshot.ends_within(ORDERS, ID[0], lower="1", upper="900"),
    "window_commits": lambda: cdc.window_commits(Window(S, E), limit=1000, zone=cdc.ServerZone()),
    "window_commits_by_zone": lambda: cdc.window_commits(Window(S, E), limit=1000, zone=ZONE),
    "wall_clock": lambda: cdc.wall_clock(datetime(2024, 3, 31, 1, 15), "W. Europe Standard Time"),
    "commits_around": lambda: cdc.commits_around(datetime(2024, 3, 31, 1, 15, 30)),
    "first_entry_past": lambda: cdc.first_entry_past(S, datetime(2024, 3, 31, 1, 15, 30)),
    "second_pass": lambda: cdc.second_pass(datetime(2026, 10, 25, 2), datetime(2026, 10, 25, 3)),
    "updateability": cdc.updateability,
    "counted_range": lambda: statement.counted(select(ID, ("1000001",), None)),
    "small_answer": lambda: statement.with_end(catalog.database_access("shop")),
    "answers_in_one_batch": lambda: statement.in_one_batch(
        [
            cdc.instances(("dbo", "100% [orders]")),
            catalog.may_select(cdc.change_table("dbo_100%")),
            catalog.may_unmask(),
            cdc.captured_columns("dbo_orders"),
        ]
    ),
    "session_set_up": lambda: session.set_up(30000),
    "session_needed_settings": session.needed_settings,
    "session_globals_in_effect": session.globals_in_effect,
    "session_options_in_effect": session.options_in_effect,
    "session_levels_in_effect": session.levels_in_effect,
    "session_texts_in_effect": session.texts_in_effect,
    "session_snapshot": lambda: session.SET_SNAPSHOT,
    "session_read_committed": lambda: session.SET_READ_COMMITTED,
    "session_begin": lambda: session.BEGIN,
    "session_commit": lambda: session.COMMIT,
    "session_rollback": lambda: session.ROLLBACK,
    "session_lock_timeout": lambda: session.set_lock_timeout(30000),
}


def tsql_modules() -> Iterator[object]:
    for found in pkgutil.iter_modules(tsql.__path__):
        yield importlib.import_module(f"{tsql.__name__}.{found.name}")


def builders() -> dict[str, CodeType]:
    """Every function of tsql/ that returns a statement, by its full name."""
    found = {}
    for module in tsql_modules():
        for name, value in vars(module).items():
            if not callable(value) or getattr(value, "__module__", "") != module.__name__:  # type: ignore[attr-defined]
                continue
            returned = typing.get_type_hints(value).get("return") if hasattr(value, "__code__") else None
            if Statement in (returned, *typing.get_args(returned)):
                found[f"{value.__module__}.{name}"] = value.__code__
    return found


def constants() -> dict[str, Statement]:
    """Every statement of tsql/ that stands ready in its module."""
    return {
        f"{module.__name__}.{name}": value  # type: ignore[attr-defined]
        for module in tsql_modules()
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }


def as_file(statement: Statement) -> str:
    """The text, below its parameters as comments."""
    parameters = "".join(f"-- {name} = {value!r}\n" for name, value in statement.parameters.items())
    return f"{parameters}{statement.text}\n"


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_is_the_one_that_was_reviewed(name: str) -> None:
    path = GOLDEN / f"{name}.sql"
    text = as_file(STATEMENTS[name]())
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


def test_there_is_no_golden_file_of_a_statement_that_is_gone() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sql")} == set(STATEMENTS)


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_marker_has_a_value_and_every_value_a_marker(name: str) -> None:
    statement = STATEMENTS[name]()
    without_escapes = statement.text.replace("%%", "")
    markers = {part.partition(")s")[0] for part in without_escapes.split("%(")[1:]}
    assert markers == set(statement.parameters)


def test_every_builder_of_a_statement_has_a_golden_file() -> None:
    called: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called.add(frame.f_code)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        made = [build() for build in STATEMENTS.values()]
    finally:
        sys.setprofile(before)
    known = builders()
    assert len(known) > 40
    missing = {name for name, code in known.items() if code not in called}
    missing |= {name for name, constant in constants().items() if constant not in made}
    assert missing == set()
