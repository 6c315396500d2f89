"""Names of tables, patterns over them, and the parts of a path that they become."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.tracked import (
    TableName,
    TablePattern,
    path_part,
    same_but_for_case,
    selected,
)


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("sales.order", "sales", "order"),
        ("Sales Data.order line", "Sales Data", "order line"),
        ("[my.schema].[a.b]", "my.schema", "a.b"),
        ("dbo.[x]]y]", "dbo", "x]y"),
        ("dbo.Größe", "dbo", "Größe"),
    ],
)
def test_a_name_is_read_and_written_alike(text: str, schema: str, table: str) -> None:
    assert TableName.parse(text) == TableName(schema, table)
    assert TableName.parse(TableName(schema, table).text) == TableName(schema, table)


@pytest.mark.parametrize("text", ["orders", "*", "a.b.c", ".orders", "dbo.", "[dbo.orders", "", 7, None])
def test_what_is_no_name_is_refused(text: object) -> None:
    with pytest.raises(ConfigurationError, match="schema.table"):
        TablePattern.parse(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "name", "matched"),
    [
        ("sales.*", "sales.order", True),
        ("sales.*", "sales_old.order", False),
        ("SALES.Order", "sales.order", True),
        ("*.audit_*", "dbo.audit_log", True),
        ("*.audit_*", "dbo.my_audit_log", False),
        ("*.*", "a.[b.c]", True),
        ("dbo.o?der", "dbo.order", False),
        ("dbo.o.*", "dbo.order", None),
        ("*s.o*r", "sales.order", True),
        ("[a.b].*", "[a.b].c", True),
        ("dbo.*", "dbo.[line\nbreak]", True),
    ],
)
def test_a_star_stands_for_any_characters_and_nothing_else_is_special(
    pattern: str, name: str, matched: bool | None
) -> None:
    if matched is None:
        with pytest.raises(ConfigurationError):
            TablePattern.parse(pattern)
        return
    assert TablePattern.parse(pattern).matches(TableName.parse(name)) is matched


def test_what_is_excluded_is_not_selected() -> None:
    names = [TableName.parse(text) for text in ("sales.order", "sales.audit_x", "dbo.a", "dbo.b")]
    include = [TablePattern.parse("sales.*"), TablePattern.parse("dbo.a")]
    assert [name.text for name in selected(names, include, [TablePattern.parse("*.audit_*")])] == [
        "sales.order",
        "dbo.a",
    ]


def test_names_that_differ_by_case_alone_are_found_in_pairs() -> None:
    names = [
        TableName("dbo", "Orders"),
        TableName("dbo", "orders"),
        TableName("DBO", "x"),
        TableName("a", "x"),
    ]
    found = same_but_for_case(names)
    assert {one.text: other.text for one, other in found.items()} == {
        "dbo.orders": "dbo.Orders",
        "dbo.Orders": "dbo.orders",
    }


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("order_line", "order_line"),
        ("order line", "order=20line"),
        ("a/b", "a=2Fb"),
        ("a\\b", "a=5Cb"),
        ("..", "=2E."),
        (".hidden", "=2Ehidden"),
        ("a.b", "a.b"),
        ("a=20b", "a=3D20b"),
        ("100%", "100=25"),
        ("[x]", "=5Bx=5D"),
        ("Größe", "Gr=C3=B6=C3=9Fe"),
        ("\ud83d", "=ED=A0=BD"),
    ],
)
def test_a_part_of_a_path_holds_nothing_that_a_store_reads_as_more_than_a_name(name: str, part: str) -> None:
    assert path_part(name) == part
