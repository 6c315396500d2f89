"""LSNs come from change tables as ten bytes and stand in bronze as text, whose order is theirs."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from airflow_provider_mssql_cdc.arrow_types import lsn_texts
from airflow_provider_mssql_cdc.model.lsn import Lsn


def values(*, seed: int, count: int) -> list[bytes]:
    rng = random.Random(seed)
    edges = [1, 1 << 79, (1 << 80) - 1, 0xABCDEF << 56, 10]
    return [
        number.to_bytes(10, "big") for number in (*edges, *(rng.getrandbits(80) or 1 for _ in range(count)))
    ]


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(10)], ids=str)
def test_each_is_the_text_of_its_lsn_wherever_its_chunk_begins_and_ends(kind: pa.DataType) -> None:
    some = values(seed=7, count=1000)
    array = pa.array(some, kind)
    chunks = pa.chunked_array([array, array.slice(3, 4), array.slice(len(some)), array.slice(990)])
    wanted = [Lsn(int.from_bytes(each, "big")).text for each in some + some[3:7] + some[990:]]
    assert lsn_texts(chunks).to_pylist() == wanted
    assert lsn_texts(chunks).type == pa.string()


def test_no_row_is_no_text() -> None:
    assert lsn_texts(pa.chunked_array([], pa.binary())).to_pylist() == []


@pytest.mark.parametrize("wrong", [b"", b"123456789", b"12345678901"])
def test_a_value_of_another_length_is_an_error_and_never_another_lsn(wrong: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid):
        lsn_texts(pa.chunked_array([pa.array([b"1234567890", wrong], pa.binary())]))
