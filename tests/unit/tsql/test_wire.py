from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.tsql.statement import (
    Statement,
    counted,
    literal,
    quote_identifier,
    with_literals,
    with_question_marks,
)


def test_markers_become_question_marks_and_their_values_come_in_order() -> None:
    statement = Statement("SELECT %(b)s, %(a)s, %(b)s", {"a": 1, "b": "x"})
    assert with_question_marks(statement) == ("SELECT ?, ?, ?", ("x", 1, "x"))


def test_markers_become_literals() -> None:
    statement = Statement("SELECT %(a)s - %(b)s", {"a": "it's", "b": -5})
    assert with_literals(statement) == "SELECT N'it''s' -  -5"


@pytest.mark.parametrize("render", [with_literals, lambda statement: with_question_marks(statement)[0]])
@pytest.mark.parametrize("name", ["100%", "%(a)s", "%s", "a?b", "%%", "%(missing)s"])
def test_a_name_is_no_marker_whatever_it_holds(name: str, render: object) -> None:
    statement = Statement(f"SELECT {quote_identifier(name)} FROM t WHERE x = %(a)s", {"a": 1})
    assert f"[{name}]" in render(statement)  # type: ignore[operator]


@pytest.mark.parametrize("value", ["%(a)s", "%%", "100%", "'; DROP TABLE t; --", "{{ x }}"])
def test_a_value_is_written_as_it_is(value: str) -> None:
    assert (
        with_literals(Statement("SELECT %(a)s", {"a": value})) == "SELECT N'" + value.replace("'", "''") + "'"
    )


def test_a_literal_cannot_hold_what_ends_a_statement() -> None:
    with pytest.raises(ValueError, match="NUL"):
        literal("a\0b")


def test_a_negative_number_cannot_make_a_comment() -> None:
    assert with_literals(Statement("SELECT 1-%(a)s", {"a": -1})) == "SELECT 1- -1"


def test_a_counted_statement_asks_for_the_rows_that_were_sent_in_the_same_batch() -> None:
    statement = counted(Statement("SELECT %(a)s", {"a": 1}))
    assert statement.text == "SELECT %(a)s;\nSELECT ROWCOUNT_BIG() AS [__$sent]"
    assert statement.parameters == {"a": 1}
