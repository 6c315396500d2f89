"""Batches of rows to ROW tokens: a column at a time where that pays, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from airflow_provider_mssql_cdc.embedded.seam import ResultColumn, Row, SqlType
from airflow_provider_mssql_cdc.embedded.tds import type_info
from airflow_provider_mssql_cdc.embedded.tds.columns import Cells, column_encoder
from airflow_provider_mssql_cdc.embedded.tds.plain import ROW, encode_rows, value_encoder

#: Below this many rows the encoder of whole columns costs more than it saves.
FEW_ROWS = 32
#: Rows are encoded in pieces of about so many bytes, however long a batch is.
PIECE_BYTES = 1 << 22
#: A column whose values may be longer than this is measured before it is encoded.
MEASURED_BYTES = 256


def encode_batches(
    columns: Sequence[ResultColumn], batches: Iterable[Sequence[Row]]
) -> Iterator[tuple[int, bytes]]:
    """For each piece of each batch: its number of rows and their ROW tokens."""
    types = [column.type for column in columns]
    for rows in batches:
        for start, end in _pieces(types, rows):
            yield end - start, encode_piece(columns, rows[start:end])


def encode_piece(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> bytes:
    """ROW tokens for these rows, by the faster of the two ways.

    Most columns become cells, and neighbours are joined as one matrix. A column whose values are long or
    very uneven becomes one bytes object for each value, between the matrices.
    """
    if len(rows) < FEW_ROWS:
        return encode_rows(columns, rows)
    slices: list[list[bytes]] = []
    cells = [Cells(np.full((len(rows), 1), ROW, np.uint8))]
    for column, values in zip(columns, zip(*rows, strict=True), strict=True):
        encoder = column_encoder(column.type)
        encoded = encoder(values) if encoder else None
        if encoded is not None:
            cells += encoded
            continue
        slices += [_cut(cells), list(map(value_encoder(column.type), values))]
        cells = []
    if not slices:
        return _join(cells)[0]
    slices.append(_cut(cells))
    return b"".join(chain.from_iterable(zip(*filter(None, slices), strict=True)))


def _join(cells: Sequence[Cells]) -> tuple[bytes, NDArray[np.bool_] | None]:
    """The bytes of these cells, row by row, and the mask they were taken by."""
    block = np.concatenate([c.block for c in cells], axis=1)
    if all(c.mask is None for c in cells):
        return block.tobytes(), None
    mask = np.ones(block.shape, np.bool_)
    at = 0
    for c in cells:
        width = c.block.shape[1]
        if c.mask is not None:
            mask[:, at : at + width] = c.mask
        at += width
    return block[mask].tobytes(), mask


def _cut(cells: Sequence[Cells]) -> list[bytes]:
    """The bytes of these cells, a bytes object for each row."""
    if not cells:
        return []
    data, mask = _join(cells)
    rows = len(cells[0].block)
    lengths = np.full(rows, len(data) // rows) if mask is None else mask.sum(axis=1)
    ends = lengths.cumsum().tolist()
    return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _pieces(types: Sequence[SqlType], rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Cut a batch into half-open ranges of rows that are about PIECE_BYTES when encoded."""
    bounds = [_bound(sql_type) for sql_type in types]
    if sum(bounds) * len(rows) <= PIECE_BYTES:
        yield from [(0, len(rows))] if rows else []
        return
    sizes = np.full(len(rows), 1 + sum(b for b in bounds if b <= MEASURED_BYTES), np.int64)
    for at, bound in enumerate(bounds):
        if bound > MEASURED_BYTES:
            sizes += np.fromiter((_measure(row[at]) for row in rows), np.int64, len(rows))
    ends = sizes.cumsum()
    start = 0
    while start < len(rows):
        limit = (ends[start - 1] if start else 0) + PIECE_BYTES
        end = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        yield start, end
        start = end


def _bound(sql_type: SqlType) -> int:
    """Bytes that no value of this type exceeds on the wire."""
    if type_info.is_large(sql_type):
        return 1 << 31
    return 18 if sql_type.length is None else 2 + sql_type.length


def _measure(value: str | bytes | None) -> int:
    """About the bytes of one value on the wire."""
    if value is None:
        return 2
    return 16 + (2 * len(value) if isinstance(value, str) else len(value))
