"""Key values as text: out of the server exactly, back in typed."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.model.source_table import SqlType
from airflow_provider_mssql_cdc.tsql.bounds import (
    exact_text,
    is_bindable,
    is_canonical,
    text_length,
    typed_bound,
)
from tests.support.tables import CASELESS, sql_type

KEY_TYPES = [
    # declared, rendered, bound
    ("bit", "CONVERT(varchar(1), CAST([k] AS tinyint))", "CAST(%(lo0)s AS bit)"),
    ("tinyint", "CONVERT(varchar(20), [k])", "CAST(%(lo0)s AS tinyint)"),
    ("smallint", "CONVERT(varchar(20), [k])", "CAST(%(lo0)s AS smallint)"),
    ("int", "CONVERT(varchar(20), [k])", "CAST(%(lo0)s AS int)"),
    ("bigint", "CONVERT(varchar(20), [k])", "CAST(%(lo0)s AS bigint)"),
    ("decimal(5,2)", "CONVERT(varchar(41), [k])", "CAST(%(lo0)s AS decimal(5,2))"),
    ("decimal(38,0)", "CONVERT(varchar(41), [k])", "CAST(%(lo0)s AS decimal(38,0))"),
    ("money", "CONVERT(varchar(41), CAST([k] AS decimal(19,4)))", "CAST(%(lo0)s AS money)"),
    ("smallmoney", "CONVERT(varchar(41), CAST([k] AS decimal(10,4)))", "CAST(%(lo0)s AS smallmoney)"),
    ("real", "CONVERT(varchar(40), [k], 3)", "CAST(%(lo0)s AS real)"),
    ("float", "CONVERT(varchar(40), [k], 3)", "CAST(%(lo0)s AS float)"),
    ("date", "CONVERT(varchar(10), [k], 23)", "CAST(%(lo0)s AS date)"),
    ("datetime", "CONVERT(varchar(23), [k], 126)", "CAST(%(lo0)s AS datetime)"),
    ("smalldatetime", "CONVERT(varchar(19), [k], 126)", "CAST(%(lo0)s AS smalldatetime)"),
    ("datetime2(7)", "CONVERT(varchar(27), [k], 121)", "CAST(%(lo0)s AS datetime2(7))"),
    ("datetime2(0)", "CONVERT(varchar(27), [k], 121)", "CAST(%(lo0)s AS datetime2(0))"),
    ("datetimeoffset(7)", "CONVERT(varchar(34), [k], 121)", "CAST(%(lo0)s AS datetimeoffset(7))"),
    ("time(7)", "CONVERT(varchar(16), [k], 121)", "CAST(%(lo0)s AS time(7))"),
    ("uniqueidentifier", "CONVERT(varchar(36), [k])", "CAST(%(lo0)s AS uniqueidentifier)"),
    ("binary(16)", "CONVERT(varchar(34), [k], 1)", "CONVERT(binary(16), %(lo0)s, 1)"),
    ("varbinary(900)", "CONVERT(varchar(1802), [k], 1)", "CONVERT(varbinary(900), %(lo0)s, 1)"),
    ("varbinary(8000)", "CONVERT(varchar(max), [k], 1)", "CONVERT(varbinary(8000), %(lo0)s, 1)"),
    ("rowversion", "CONVERT(varchar(18), CAST([k] AS binary(8)), 1)", "CONVERT(binary(8), %(lo0)s, 1)"),
    ("char(10)", "CAST([k] AS nvarchar(10))", f"CAST(%(lo0)s COLLATE {CASELESS} AS char(10))"),
    ("varchar(20)", "CAST([k] AS nvarchar(20))", f"CAST(%(lo0)s COLLATE {CASELESS} AS varchar(20))"),
    ("varchar(8000)", "CAST([k] AS nvarchar(max))", f"CAST(%(lo0)s COLLATE {CASELESS} AS varchar(8000))"),
    ("nchar(10)", "CAST([k] AS nvarchar(10))", f"CAST(%(lo0)s AS nchar(10)) COLLATE {CASELESS}"),
    ("nvarchar(450)", "CAST([k] AS nvarchar(450))", f"CAST(%(lo0)s AS nvarchar(450)) COLLATE {CASELESS}"),
]


@pytest.mark.parametrize(("declared", "rendered", "bound"), KEY_TYPES)
def test_every_key_type_is_rendered_exactly_and_read_back_as_its_own_type(
    declared: str, rendered: str, bound: str
) -> None:
    described = sql_type(declared)
    assert is_bindable(described)
    assert exact_text(described, "[k]") == rendered
    typed = typed_bound(described, "1", "lo0")
    assert typed.text == bound
    assert dict(typed.parameters) == {"lo0": "1"}


@pytest.mark.parametrize(
    "declared",
    "varchar(max) nvarchar(max) varbinary(max) text ntext image xml sql_variant hierarchyid geography "
    "geometry json vector clr".split(),
)
def test_types_that_no_index_may_have_bound_no_range(declared: str) -> None:
    assert not is_bindable(sql_type(declared))


@pytest.mark.parametrize(
    ("declared", "canonical"),
    [
        ("int", True),
        ("decimal(9,4)", True),
        ("money", True),
        ("bit", True),
        ("datetime", True),
        ("datetime2(7)", True),
        ("time(7)", True),
        ("uniqueidentifier", True),
        ("binary(4)", True),
        ("rowversion", True),
        ("float", False),
        ("real", False),
        ("datetimeoffset(0)", False),
        ("varbinary(4)", False),
        ("varchar(4)", False),
        ("nchar(4)", False),
    ],
)
def test_equal_values_have_one_text_except_where_the_server_ignores_a_difference(
    declared: str, canonical: bool
) -> None:
    assert is_canonical(sql_type(declared)) is canonical


def test_a_binary_collation_ignores_trailing_blanks_as_well() -> None:
    assert not is_canonical(SqlType("varchar", 10, collation="Latin1_General_100_BIN2"))


def test_a_char_type_of_unknown_collation_is_bound_without_one() -> None:
    assert typed_bound(SqlType("varchar", 10), "a", "lo0").text == "CAST(%(lo0)s AS varchar(10))"


@pytest.mark.parametrize(
    ("value", "text", "parameters"),
    [
        ("", "%(lo0)s", {"lo0": ""}),
        ("it's %(lo0)s; DROP", "%(lo0)s", {"lo0": "it's %(lo0)s; DROP"}),
        (" trailing  ", "%(lo0)s", {"lo0": " trailing  "}),
        ("\0", "(NCHAR(0))", {}),
        ("a\0", "(CAST(%(lo0_0)s AS nvarchar(4000)) + NCHAR(0))", {"lo0_0": "a"}),
        ("\n\n", "(NCHAR(10) + NCHAR(10))", {}),
        (
            "back\\\nslash",
            "(CAST(%(lo0_0)s AS nvarchar(4000)) + NCHAR(10) + CAST(%(lo0_1)s AS nvarchar(4000)))",
            {"lo0_0": "back\\", "lo0_1": "slash"},
        ),
    ],
)
def test_control_characters_are_named_by_number_and_all_else_is_a_value(
    value: str, text: str, parameters: dict[str, str]
) -> None:
    typed = typed_bound(SqlType("nvarchar", 100), value, "lo0")
    assert typed.text == f"CAST({text} AS nvarchar(50))"
    assert dict(typed.parameters) == parameters


@pytest.mark.parametrize(
    ("declared", "longest"),
    [
        ("bit", "1"),
        ("tinyint", "255"),
        ("smallint", "-32768"),
        ("int", "-2147483648"),
        ("bigint", "-9223372036854775808"),
        ("money", "-922337203685477.5808"),
        ("smallmoney", "-214748.3648"),
        ("decimal(5,2)", "-999.99"),
        ("decimal(5,0)", "-99999"),
        ("decimal(4,4)", "-0.9999"),
        ("decimal(38,38)", "-0." + 38 * "9"),
        ("float", "-1.7976931348623157e+308"),
        ("date", "2024-12-31"),
        ("datetime", "2024-12-31T23:59:59.997"),
        ("smalldatetime", "2024-12-31T23:59:00"),
        ("datetime2(7)", "9999-12-31 23:59:59.9999999"),
        ("datetime2(3)", "9999-12-31 23:59:59.999"),
        ("datetime2(0)", "9999-12-31 23:59:59"),
        ("datetimeoffset(7)", "2024-12-31 23:59:59.9999999 +14:00"),
        ("time(0)", "23:59:59"),
        ("time(7)", "23:59:59.9999999"),
        ("uniqueidentifier", "6F9619FF-8B86-D011-B42D-00C04FC964FF"),
        ("binary(2)", "0xFFFF"),
        ("rowversion", "0x00000000000007D1"),
    ],
)
def test_the_length_of_a_rendered_value_is_known(declared: str, longest: str) -> None:
    assert text_length(sql_type(declared)) == len(longest)


def test_the_text_of_texts_has_no_length_of_its_own() -> None:
    assert text_length(sql_type("varchar(20)")) is None


def test_a_text_of_a_multi_byte_code_page_is_marked_when_it_would_not_come_back() -> None:
    japanese = SqlType("varchar", 20, collation="Japanese_CI_AS")
    text = "CAST([k] AS nvarchar(20))"
    back = f"CAST(CAST({text} COLLATE Japanese_CI_AS AS varchar(20)) AS varbinary(20))"
    assert exact_text(japanese, "[k]") == (
        f"CASE WHEN CAST([k] AS varbinary(20)) <> {back} THEN NCHAR(65533) ELSE {text} END"
    )
    assert exact_text(SqlType("nvarchar", 40, collation="Japanese_CI_AS"), "[k]") == text


def test_a_long_text_with_control_characters_is_joined_without_being_cut() -> None:
    bound = typed_bound(sql_type("varchar(8000)"), "x" * 5000 + "\t" + "y", "lo0")
    assert "(CAST(%(lo0_0)s AS nvarchar(max)) + NCHAR(9) + CAST(%(lo0_1)s AS nvarchar(max)))" in bound.text
    assert {len(value) for value in bound.parameters.values()} == {5000, 1}
