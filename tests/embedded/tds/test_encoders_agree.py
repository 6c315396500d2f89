"""The encoder of whole columns writes the bytes of the plain one, whatever the rows hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.embedded import halves
from airflow_provider_mssql_cdc.embedded.seam import MAX, Parameter, ResultColumn, SqlType
from airflow_provider_mssql_cdc.embedded.tds import plain, requests, rows, tokens, type_info
from airflow_provider_mssql_cdc.embedded.tds.columns import column_encoder

DAYS = 3_652_059
UNITS = 864_000_000_000


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int) -> st.SearchStrategy[Any]:
    scaled = st.integers(-(10**precision) + 1, 10**precision - 1)
    return scaled if precision <= 18 else scaled.map(lambda v: (v + 2**127).to_bytes(16, "big"))


def moments(scale: int) -> st.SearchStrategy[int]:
    return st.integers(0, DAYS * 86_400 * 10**scale - 1).map(lambda v: v * 10 ** (7 - scale))


def offsets(scale: int) -> st.SearchStrategy[str]:
    return st.builds(lambda u, m: f"{u:020d}{m:+05d}", moments(scale), st.integers(-840, 840))


def text(codec: str, longest: int) -> st.SearchStrategy[str]:
    odd = "¢£¬‖−〜" if codec == "cp932" else ""  # these do not come back as they were
    letters = st.characters() if codec == "utf-16" else st.characters(codec=codec, exclude_characters=odd)
    short = st.text(letters, max_size=longest)
    return short | short.map(lambda s: s * 300)


def padded(strategy: st.SearchStrategy[str], length: int) -> st.SearchStrategy[str]:
    return strategy.map(lambda s: s[:length].ljust(length))


def binary(longest: int) -> st.SearchStrategy[bytes]:
    return st.binary(max_size=longest) | st.binary(max_size=longest).map(lambda b: b * 200)


STRATEGIES: dict[SqlType, st.SearchStrategy[Any]] = {
    SqlType("bit"): st.integers(0, 1),
    SqlType("tinyint"): st.integers(0, 255),
    SqlType("smallint"): integers(16),
    SqlType("int"): integers(32),
    SqlType("bigint"): integers(64),
    SqlType("smallmoney"): integers(32),
    SqlType("money"): integers(64),
    SqlType("real"): st.floats(width=32, allow_nan=False),
    SqlType("float"): st.floats(allow_nan=False),
    **{SqlType("decimal", precision=p, scale=2): decimals(p) for p in (2, 9, 10, 18, 19, 20, 28, 29, 38)},
    SqlType("date"): st.integers(0, DAYS - 1),
    SqlType("datetime"): st.integers(-53690 * 25_920_000, 2958464 * 25_920_000 - 1),
    SqlType("smalldatetime"): st.integers(0, 65536 * 1440 - 1),
    **{SqlType("time", scale=s): moments(s).map(lambda v: v % UNITS) for s in (0, 2, 3, 4, 5, 7)},
    **{SqlType("datetime2", scale=s): moments(s) for s in (0, 3, 4, 7)},
    **{SqlType("datetimeoffset", scale=s): offsets(s) for s in (0, 3, 7)},
    SqlType("nvarchar", 8000): text("utf-16", 12),
    SqlType("nvarchar", MAX): text("utf-16", 12),
    SqlType("nchar", 20): padded(text("ascii", 10), 10),
    SqlType("varchar", 8000, collation="Latin1_General_CI_AS"): text("cp1252", 20),
    SqlType("varchar", MAX, collation="Greek_CI_AS"): text("cp1253", 20),
    SqlType("varchar", 8000, collation="Japanese_CI_AS"): text("cp932", 12),
    SqlType("varchar", 8000, collation="Chinese_PRC_BIN2"): text("cp936", 12),
    SqlType("varchar", 8000, collation="Latin1_General_100_CI_AS_SC_UTF8"): text("utf-8", 6),
    SqlType("char", 10): padded(text("ascii", 10), 10),
    SqlType("uniqueidentifier"): st.binary(min_size=16, max_size=16),
    SqlType("binary", 6): st.binary(min_size=6, max_size=6),
    SqlType("varbinary", 8000): binary(30),
    SqlType("varbinary", MAX): binary(30),
    SqlType("rowversion"): st.binary(min_size=8, max_size=8),
}
LARGE = {
    SqlType("xml"): text("utf-16", 12),
    SqlType("text"): text("cp1252", 9),
    SqlType("ntext"): text("utf-16", 9),
    SqlType("image"): binary(9),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[ResultColumn], list[tuple[Any, ...]]]:
    """Some columns of some types, and rows made of a few values of each, NULLs among them or not."""
    strategies = STRATEGIES | LARGE
    types = draw(st.lists(st.sampled_from(list(strategies)), min_size=1, max_size=6))
    count = draw(st.integers(rows.FEW_ROWS, 90))
    columns = []
    for sql_type in types:
        values = strategies[sql_type]
        if draw(st.booleans()):
            values = st.none() | values
        pool = draw(st.lists(values, min_size=1, max_size=8))
        step = draw(st.integers(1, 7))
        columns.append([pool[i * step % len(pool)] for i in range(count)])
    return [ResultColumn("x", sql_type) for sql_type in types], list(zip(*columns, strict=True))


@settings(deadline=None, max_examples=300)
@given(tables())
def test_columns_at_once_equal_values_one_by_one(
    table: tuple[list[ResultColumn], list[tuple[Any, ...]]],
) -> None:
    columns, values = table
    assert rows.encode_piece(columns, values) == plain.encode_rows(columns, values)


@pytest.mark.parametrize("sql_type", list(STRATEGIES), ids=str)
def test_a_column_of_nulls_has_the_bytes_of_nulls(sql_type: SqlType) -> None:
    columns, values = [ResultColumn("x", sql_type)], [(None,)] * 40
    assert rows.encode_piece(columns, values) == plain.encode_rows(columns, values)


@settings(deadline=None, max_examples=60)
@given(tables())
def test_a_batch_in_pieces_is_the_batch(table: tuple[list[ResultColumn], list[tuple[Any, ...]]]) -> None:
    columns, values = table
    with pytest.MonkeyPatch.context() as small:
        small.setattr(rows, "PIECE_BYTES", 2000)
        pieces = list(rows.encode_batches(columns, [values, [], values]))
    assert sum(count for count, _ in pieces) == 2 * len(values)
    assert b"".join(data for _, data in pieces) == 2 * plain.encode_rows(columns, values)


@pytest.mark.parametrize("sql_type", list(STRATEGIES), ids=str)
def test_most_types_have_an_encoder_of_whole_columns(sql_type: SqlType) -> None:
    assert (column_encoder(sql_type) is None) == type_info.is_large(sql_type)


@pytest.mark.parametrize("sql_type", list(STRATEGIES), ids=str)
@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_a_value_that_is_sent_back_as_a_parameter_is_the_value(
    sql_type: SqlType, data: st.DataObject
) -> None:
    value = data.draw(st.none() | STRATEGIES[sql_type])
    sent = tokens.short_text("@p") + b"\x00" + type_info.type_info(sql_type)
    sent += plain.value_encoder(sql_type)(value)
    cursor = requests.Cursor(sent)
    read = requests.parameter(cursor)
    kept = halves.kept(value) if isinstance(value, str) else value
    assert (read.name, read.value, cursor.exhausted) == ("@p", kept, True)
    assert isinstance(read, Parameter)
