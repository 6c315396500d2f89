"""A set of keys, and where in it the key of each row is: byte for byte, column by column, without a join.

Arrow's ``index_in`` compares values as they are stored: texts by their bytes, numbers by their bits. A key of
several columns is looked up one column at a time; the numbers that two columns give make one number again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_mssql_cdc.lake.arrays import naive_utc, one

Rows: TypeAlias = "pa.Table | pa.RecordBatch"
Bounds = Mapping[str, tuple[Any, Any]]
"""Smallest and largest value of a column in a file or a row group."""

_VALUES_LISTED = 200_000


class KeySet:
    """Distinct keys, none with a NULL, numbered in the order of the table that they come in."""

    def __init__(self, keys: pa.Table) -> None:
        self.keys = keys.combine_chunks()
        self.names: Sequence[str] = keys.column_names
        self._values = [pc.unique(self.keys.column(name)) for name in self.names]
        self._pairs: list[pa.Array] = []
        codes = self._codes(self.keys, 0)
        for level in range(1, len(self.names)):
            pairs = self._paired(codes, self.keys, level)
            self._pairs.append(pc.unique(pairs))
            codes = pc.index_in(pairs, value_set=self._pairs[-1])

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    def positions(self, rows: Rows) -> pa.Array | pa.ChunkedArray:
        """For each row the number of its key, NULL when that is not in the set."""
        codes = self._codes(rows, 0)
        for level in range(1, len(self.names)):
            codes = pc.index_in(self._paired(codes, rows, level), value_set=self._pairs[level - 1])
        return codes

    def _codes(self, rows: Rows, level: int) -> pa.Array | pa.ChunkedArray:
        return pc.index_in(rows.column(self.names[level]), value_set=self._values[level])

    def _paired(
        self, codes: pa.Array | pa.ChunkedArray, rows: Rows, level: int
    ) -> pa.Array | pa.ChunkedArray:
        """One number for what the columns so far gave and what this one gives; NULL when either has none."""
        width = one(len(self._values[level]), pa.int64())[0]
        return pc.add(pc.multiply(codes.cast(pa.int64()), width), self._codes(rows, level).cast(pa.int64()))

    def may_be_within(self, bounds: Bounds) -> bool:
        """Whether some key can lie within these bounds; columns without bounds exclude nothing."""
        return all(
            self._some_within(name, *bounds[name]) for name in self.names if bounds.get(name) is not None
        )

    def _some_within(self, name: str, low: Any, high: Any) -> bool:
        values = self._sorted.get(name)
        if values is None or not is_comparable(low):
            return True
        at = bisect_left(values, plain(low))
        return at < len(values) and values[at] <= plain(high)

    @cached_property
    def _sorted(self) -> dict[str, list[Any]]:
        """Values in order, of columns whose bounds are to be trusted."""
        ordered = {}
        for name, values in zip(self.names, self._values, strict=True):
            if len(values) and is_comparable(values[0].as_py()) and len(values) <= _VALUES_LISTED:
                ordered[name] = sorted(plain(value) for value in values.to_pylist())
        return ordered


def is_comparable(value: Any) -> bool:
    """Texts, whole numbers, decimals, dates and times; a float has NaN and two zeros, bytes may be cut."""
    return isinstance(value, str | int | Decimal | date) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """A time without its zone: a footer gives it with one, a log without, or the other way round."""
    return naive_utc(value) if isinstance(value, datetime) else value
