"""Batches of rows to ROW tokens: a column at a time where that pays, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_mssql_cdc.embedded.seam import ResultColumn, Row
from airflow_provider_mssql_cdc.embedded.tds.plain import encode_rows


def encode_batches(columns: Sequence[ResultColumn], batches: Iterable[Sequence[Row]]) -> Iterator[tuple[int, bytes]]:
    """Row counts and ROW tokens."""
    for rows in batches:
        yield len(rows), encode_rows(columns, rows)
