"""The columns that are the same on every row of a read, as arrays that cost next to nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from airflow_provider_mssql_cdc.lake.constants import repeated
from airflow_provider_mssql_cdc.lake.schema import METADATA_NAMES, bronze_schema
from airflow_provider_mssql_cdc.model.lsn import Lsn

SNAPSHOT_ROW = 0
"""``_operation`` of a snapshot row; 1 to 4 are SQL Server's."""


@dataclass(slots=True)
class RowStamp:
    """What is written beside the captured columns of every row of a snapshot read.

    :param start_lsn: the LSN recorded before the read.
    :param commit_ts: its commit time; None where it is no mapped commit.
    :param snapshot: S.
    :param chunk: number of the chunk, None on a whole snapshot.
    """

    instance: str
    start_lsn: Lsn
    commit_ts: datetime | None
    snapshot: Lsn
    chunk: int | None = None
    _arrays: dict[str, pa.Array] = field(default_factory=dict, repr=False)

    def _values(self) -> dict[str, Any]:
        return {
            "_capture_instance": self.instance,
            "_start_lsn": self.start_lsn.text,
            "_operation": SNAPSHOT_ROW,
            "_commit_ts": self.commit_ts,
            "_snapshot": self.snapshot.text,
            "_chunk": self.chunk,
        }

    def column(self, name: str, length: int) -> pa.Array:
        """One of bronze's own columns, ``length`` rows of it; a slice of an array that is kept."""
        known = self._arrays.get(name)
        if known is None or len(known) < length:
            known = self._arrays[name] = self._repeated(name, length)
        return known.slice(0, length)

    def _repeated(self, name: str, length: int) -> pa.Array:
        value = self._values().get(name)
        return repeated(value, self.stored_type(name) if value is None else _TYPES[name], length=length)

    @staticmethod
    def stored_type(name: str) -> pa.DataType:
        """The Arrow type that :meth:`column` has: texts are dictionaries of one word."""
        return _ONE_WORD if pa.types.is_string(_TYPES[name]) else _TYPES[name]


_TYPES = {name: bronze_schema(()).field(name).type for name in METADATA_NAMES}
_ONE_WORD = pa.dictionary(pa.int8(), pa.string())
