import pytest

from airflow_provider_mssql_cdc.embedded.cdc.enable import instance_name, parse_column_list, quote_names
from airflow_provider_mssql_cdc.embedded.seam import SqlError


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id", ["id"]),
        ("id, name ,amount", ["id", "name", "amount"]),
        ("[id],[order line]", ["id", "order line"]),
        ("[a]]b], [c,d]", ["a]b", "c,d"]),
        ('"quoted ""name""", plain', ['quoted "name"', "plain"]),
        ("order line, id", ["order line", "id"]),
    ],
)
def test_a_column_list_holds_bare_bracketed_and_quoted_names(text, names):
    assert parse_column_list(text) == names


@pytest.mark.parametrize("text", ["[id, name", 'id, "name', "[a]b"])
def test_a_quoted_name_that_does_not_end_is_refused(text):
    with pytest.raises(SqlError) as caught:
        parse_column_list(text)
    assert caught.value.number == 22965


def test_an_instance_is_named_after_its_table_and_no_name_is_longer_than_a_hundred():
    assert instance_name(None, "dbo", "orders") == "dbo_orders"
    assert instance_name("own", "dbo", "orders") == "own"
    with pytest.raises(SqlError) as caught:
        instance_name(None, "dbo", "x" * 97)
    assert caught.value.number == 22927


def test_names_are_listed_in_brackets():
    assert quote_names(("a", "b]c")) == "[a], [b]]c]"
