"""Names in the lake: reversible, collision-free, and what Delta cannot tell apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.planning.columns import indistinct, is_reserved, lake_name, source_name


@pytest.mark.parametrize(
    ("source", "lake"),
    [
        ("OrderId", "OrderId"),
        ("Entry No_", "Entry_x0020_No_"),
        ("a,b;c", "a_x002C_b_x003B_c"),
        ("{x}(y)=z", "_x007B_x_x007D__x0028_y_x0029__x003D_z"),
        ("tab\tline\n", "tab_x0009_line_x000A_"),
        ("Amount ($)", "Amount_x0020__x0028_$_x0029_"),
        ('a.b`c]d"e', 'a.b`c]d"e'),
        ("ключ 🌺", "ключ_x0020_🌺"),
        ("a_x0020_b", "a_x005F_x0020_b"),
        ("a_x00e4_b", "a_x005F_x00e4_b"),
        ("_x0020_x0020_b", "_x005F_x0020_x005F_x0020_b"),
        ("_x0020 ", "_x005F_x0020_x0020_"),
        (" x0020_", "_x0020_x0020_"),
        ("a_x002_b", "a_x002_b"),
        ("1st", "1st"),
    ],
)
def test_a_name_is_encoded_only_where_spark_would_refuse_it(source: str, lake: str) -> None:
    assert lake_name(source) == lake
    assert source_name(lake) == source


# dense in what the rule is about: blanks, escapes and their pieces
NAMES = st.one_of(
    st.text(alphabet=" _x02045FfA,;\t", max_size=20),
    st.lists(
        st.sampled_from(["_x0020_", "_x005F_", "_", "x0020", "_x00", "20_", " ", "(", "a"]), max_size=8
    ).map("".join),
)


@given(name=NAMES)
def test_the_source_name_comes_back(name: str) -> None:
    assert source_name(lake_name(name)) == name
    assert not set(lake_name(name)) & set(" ,;{}()=\t\n")


@given(first=NAMES, second=NAMES)
def test_two_source_names_never_meet(first: str, second: str) -> None:
    assert (lake_name(first) == lake_name(second)) == (first == second)


@pytest.mark.parametrize(
    "name", ["_start_lsn", "_Operation", "_BATCH_ID", "_snapshot", "_chunk", "_commit_ts"]
)
def test_bronze_keeps_its_own_names_whatever_their_case(name: str) -> None:
    assert is_reserved(name)


def test_names_that_differ_by_case_only_are_found() -> None:
    assert indistinct(["Id", "name", "ID", "Name", "x"]) == [("Id", "ID"), ("name", "Name")]
    assert indistinct(["ss", "ß"]) == []
