"""Every column is planned, left out with a warning, or named as a problem: none is lost silently."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.planning.types import find_column, plan_columns
from tests.support.tables import column


def units(read: str, unicode: str, size: int | str) -> str:
    """A string as its UTF-16 units."""
    return f"CAST(CAST({read} AS {unicode}) AS varbinary({size}))"


MAPPED = [
    # declared, data type, projection
    ("bit", "bool", "[c]"),
    ("tinyint", "int16", "CAST([c] AS smallint)"),
    ("smallint", "int16", "[c]"),
    ("int", "int32", "[c]"),
    ("bigint", "int64", "[c]"),
    ("real", "float32", "[c]"),
    ("float", "float64", "[c]"),
    ("decimal(18,4)", "decimal(18,4)", "[c]"),
    ("decimal(38,38)", "decimal(38,38)", "[c]"),
    ("money", "decimal(19,4)", "CAST([c] AS decimal(19,4))"),
    ("smallmoney", "decimal(10,4)", "CAST([c] AS decimal(10,4))"),
    ("date", "date", "[c]"),
    ("datetime", "timestamp_ntz", "[c]"),
    ("smalldatetime", "timestamp_ntz", "[c]"),
    ("datetime2(0)", "timestamp_ntz", "[c]"),
    ("datetime2(7)", "timestamp_ntz", "[c]"),
    ("datetimeoffset(7)", "timestamp", "[c]"),
    ("time(3)", "string", "CONVERT(varchar(16), CAST([c] AS time(7)), 121)"),
    ("char(5)", "string", "CAST([c] AS nvarchar(5))"),
    ("varchar(max)", "string", "CAST([c] AS nvarchar(max))"),
    ("nchar(5)", "string", units("[c]", "nvarchar(5)", 10)),
    ("nvarchar(50)", "string", units("[c]", "nvarchar(50)", 100)),
    ("text", "string", "CAST([c] AS nvarchar(max))"),
    ("ntext", "string", units("[c]", "nvarchar(max)", "max")),
    ("xml", "string", "CAST([c] AS nvarchar(max))"),
    ("json", "string", "CAST([c] AS nvarchar(max))"),
    ("vector", "string", "CAST([c] AS nvarchar(max))"),
    ("uniqueidentifier", "string", "[c]"),
    ("binary(8)", "binary", "[c]"),
    ("varbinary(max)", "binary", "[c]"),
    ("image", "binary", "CAST([c] AS varbinary(max))"),
    ("rowversion", "binary", "CAST([c] AS binary(8))"),
]


@pytest.mark.parametrize(("declared", "data_type", "projection"), MAPPED)
def test_a_source_type_has_one_type_in_the_lake(declared: str, data_type: str, projection: str) -> None:
    plan = plan_columns([column("c", declared)], {})
    assert (plan.problems, plan.warnings) == ((), ())
    (planned,) = plan.columns
    assert (planned.lake.data_type, planned.projection) == (data_type, projection)


@pytest.mark.parametrize("declared", ["sql_variant", "hierarchyid", "geography", "geometry", "clr"])
def test_types_without_a_counterpart_need_a_cast_by_the_user(declared: str) -> None:
    (problem,) = plan_columns([column("c", declared), column("id", "int")], {}).problems
    assert 'casts={"c": ' in problem
    cast = plan_columns([column("c", declared)], {"c": "nvarchar(4000)"})
    assert cast.problems == ()
    assert cast.columns[0].projection == units(
        whole("nvarchar(4000)", "nvarchar(4000)", "nvarchar", 8000), "nvarchar(4000)", 8000
    )
    assert cast.columns[0].lake.data_type == "string"


def whole(target: str, read: str, wide: str, most: int) -> str:
    """A cast that fails where CAST would cut."""
    length = f"DATALENGTH(CAST([c] AS {wide}(max)))"
    failing = f"CAST(CAST(N'longer than {target}: ' + CAST({length} AS nvarchar(20)) AS int) AS {read})"
    return f"CASE WHEN {length} > {most} THEN {failing} ELSE CAST([c] AS {read}) END"


@pytest.mark.parametrize(
    ("declared", "cast", "data_type", "projection"),
    [
        ("datetime2(7)", "varchar(27)", "string", "CAST(CONVERT(varchar(27), [c], 121) AS varchar(27))"),
        ("datetime", "char(23)", "string", "CAST(CONVERT(varchar(23), [c], 126) AS char(23))"),
        ("float", "varchar(30)", "string", "CAST(CONVERT(varchar(40), [c], 3) AS varchar(30))"),
        ("varbinary(8)", "varchar(18)", "string", "CAST(CONVERT(varchar(18), [c], 1) AS varchar(18))"),
        ("varchar(20)", "int", "int32", "CAST([c] AS int)"),
        ("decimal(38,0)", "bigint", "int64", "CAST([c] AS bigint)"),
        ("bigint", "tinyint", "int16", "CAST(CAST([c] AS tinyint) AS smallint)"),
        ("varchar(50)", "uniqueidentifier", "string", "CAST([c] AS uniqueidentifier)"),
        (
            "hierarchyid",
            "varbinary(892)",
            "binary",
            whole("varbinary(892)", "varbinary(892)", "varbinary", 892),
        ),
        ("geography", "varchar(max)", "string", units("CAST([c] AS nvarchar(max))", "nvarchar(max)", "max")),
        (
            "geography",
            "varchar(100)",
            "string",
            units(whole("varchar(100)", "nvarchar(100)", "nvarchar", 200), "nvarchar(100)", 200),
        ),
        (
            "xml",
            "varchar(8000)",
            "string",
            units(whole("varchar(8000)", "nvarchar(max)", "nvarchar", 16000), "nvarchar(max)", "max"),
        ),
        (
            "nvarchar(40)",
            "varchar(10)",
            "string",
            units(whole("varchar(10)", "nvarchar(10)", "nvarchar", 20), "nvarchar(10)", 20),
        ),
        ("nvarchar(40)", "varchar(40)", "string", units("CAST([c] AS nvarchar(40))", "nvarchar(40)", 80)),
        ("varbinary(40)", "binary(8)", "binary", whole("binary(8)", "binary(8)", "varbinary", 8)),
        ("varbinary(8)", "varbinary(40)", "binary", "CAST([c] AS varbinary(40))"),
        ("int", "varbinary(2)", "binary", whole("varbinary(2)", "varbinary(2)", "varbinary", 2)),
    ],
)
def test_a_cast_prints_all_digits_and_is_mapped_like_its_type(
    declared: str, cast: str, data_type: str, projection: str
) -> None:
    plan = plan_columns([column("c", declared)], {"C": cast})
    assert plan.problems == ()
    assert plan.columns[0].lake.data_type == data_type
    assert plan.columns[0].projection == projection
    assert f"cast to {cast}" in plan.columns[0].lake.comment


@pytest.mark.parametrize(
    ("casts", "said"),
    [
        ({"nope": "int"}, "the table has no column [nope]"),
        ({"id": "int; DROP TABLE t"}, "must be written like varchar"),
        ({"id": "geography"}, "must be one that a column can be cast to"),
        ({"id": "varchar"}, "varchar must have a length"),
        ({"at": "varchar(19)"}, "column [at] (datetime2(7)) must be cast to at least 27 characters"),
        ({"at": "nchar(26)"}, "must be cast to at least 27 characters"),
        ({"at": "varchar(27)", "AT": "varchar(30)"}, "column [at] must be named once"),
        ({"100%": "int"}, "the table has no column [100%]"),
    ],
)
def test_a_cast_that_cannot_be_made_is_a_problem(casts: dict[str, str], said: str) -> None:
    columns = [column("id", "int"), column("at", "datetime2(7)")]
    (problem,) = plan_columns(columns, casts).problems
    assert problem.startswith("casts: ")
    assert said in problem


def test_computed_and_uncaptured_columns_are_left_out_with_a_warning() -> None:
    plan = plan_columns(
        [
            column("id", "int"),
            column("total", "money", computed=True),
            column("note", "xml", captured=False),
            column("all_sparse", "xml", column_set=True, captured=False),
        ],
        {},
    )
    assert [planned.source.name for planned in plan.columns] == ["id"]
    assert plan.problems == ()
    assert [warning.split(" ")[1] for warning in plan.warnings] == ["[total]", "[note]"]


def test_a_table_without_a_column_to_load_is_a_problem() -> None:
    (problem,) = plan_columns([column("total", "money", computed=True)], {}).problems
    assert "at least one column must be captured" in problem


@pytest.mark.parametrize(
    ("kind", "said"),
    [("masked", "GRANT UNMASK"), ("encrypted", "Always Encrypted"), ("column_set", "column set")],
)
def test_veiled_columns_are_refused_each_with_its_remedy(kind: str, said: str) -> None:
    (problem,) = plan_columns([column("c", "nvarchar(20)", **{kind: True}), column("id", "int")], {}).problems
    assert problem.startswith("column [c] (nvarchar(20))")
    assert said in problem


def test_a_masked_or_encrypted_column_is_loaded_when_it_is_allowed_by_name() -> None:
    columns = [column("m", "nvarchar(20)", masked=True), column("e", "nvarchar(20)", encrypted=True)]
    plan = plan_columns(columns, {}, allow={"m", "e"})
    assert plan.problems == ()
    assert [planned.lake.data_type for planned in plan.columns] == ["string", "binary"]
    assert "ciphertext" in plan.columns[1].lake.comment


def test_what_is_allowed_is_found_in_any_case_and_what_is_not_there_is_a_problem() -> None:
    columns = [column("Salary", "int", masked=True), column("id", "int")]
    assert plan_columns(columns, {}, allow=("SALARY", "row_level_security")).problems == ()
    problems = plan_columns(columns, {}, allow=("salry",)).problems
    assert problems[0] == "allow: the table has no column [salry]"
    assert 'allow=("Salary",)' in problems[1]


def test_every_problem_is_reported_at_once() -> None:
    columns = [
        column("g", "geography"),
        column("m", "int", masked=True),
        column("_Start_LSN", "int"),
        column("id", "int"),
        column("ID", "int"),
    ]
    problems = plan_columns(columns, {"x": "int"}).problems
    assert len(problems) == 5
    assert "must not have the name of a technical column" in problems[3]
    assert "[id] and [ID] must differ by more than case" in problems[4]


def test_awkward_names_are_written_down_as_they_are() -> None:
    (planned,) = plan_columns([column("100% Entry No.", "datetime2(7)")], {}).columns
    assert planned.lake.name == "100%_x0020_Entry_x0020_No."
    assert planned.lake.source_name == "100% Entry No."
    assert planned.lake.comment == "[100% Entry No.] datetime2(7), the 100 ns digit is cut"
    assert planned.projection == "[100%% Entry No.]"


def test_a_name_is_found_exactly_or_else_ignoring_case() -> None:
    columns = [column("Id", "int"), column("ID", "int"), column("Name", "int")]
    assert find_column(columns, "ID").name == "ID"
    assert find_column(columns, "NAME").name == "Name"
    with pytest.raises(ValueError, match=r"\[id\] must be spelled like one of \[Id\], \[ID\]"):
        find_column(columns, "id")
