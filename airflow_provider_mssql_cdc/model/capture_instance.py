"""A capture instance: what CDC records of one table, and since when."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from airflow_provider_mssql_cdc.model.lsn import Lsn


@dataclass(frozen=True, slots=True)
class CaptureInstance:
    """One row of ``sys.sp_cdc_help_change_data_capture``.

    ``start_lsn`` is the low endpoint, which cleanup raises; an instance is identified by
    ``change_table_id`` and ``create_date``. Names are the catalog's spelling.

    :param index_columns: columns of the unique index named when the table was enabled, in key order.
    :param create_date: the server's local clock.
    """

    name: str
    source_schema: str
    source_table: str
    source_object_id: int
    change_table_id: int
    start_lsn: Lsn | None
    create_date: datetime
    captured_columns: tuple[str, ...]
    index_columns: tuple[str, ...] = ()
    index_name: str | None = None
    role_name: str | None = None
    drop_pending: bool = False

    @property
    def identity(self) -> str:
        """What stays the same as long as the change table does."""
        return f"{self.change_table_id}@{self.create_date.isoformat()}"
