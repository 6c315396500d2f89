"""Operators for on-call work: report the progress of a load, and abandon a load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.operators._base import (
    MssqlCdcOperator,
    as_flag,
    as_lsn,
    attempt_of,
    flag_or_template,
    lsn,
)

if TYPE_CHECKING:
    from airflow.sdk import Context


class MssqlCdcStatusOperator(MssqlCdcOperator):
    """Report the progress of a table's load; read only.

    It returns ``{"state", "snapshot", "complete_snapshot", "waves_done", "waves", "chunks_done", "chunks",
    "rows", "rows_per_second", "expected_end", "position", "headroom_hours", "note"}`` and logs it.

    :param table: the source table and its Delta tables. (templated)
    :param ask_server: connect to the server and report the retention headroom of bronze's changes; ``note``
        then names a gap, or a capture job that looks stopped. (templated)
    """

    template_fields: Sequence[str] = ("table", "ask_server")
    field_checks: ClassVar = {"ask_server": flag_or_template}

    def __init__(self, *, ask_server: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ask_server = ask_server
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.status import status

        asked = as_flag(self.ask_server, name="ask_server")
        progress = status(self.table, connect=self.connect if asked else None)
        self.log.info("%s: %s: %s. %s", self.table.label, progress.state, progress, progress.note or "")
        return progress.to_json()


class MssqlCdcAbandonOperator(MssqlCdcOperator):
    """Abandon the chunked snapshot that is being loaded: its later waves fail, and a new run opens another.

    Changes and complete snapshots are not affected. Without a load in progress nothing is abandoned. It
    returns ``{"snapshot", "files", "rows"}``: the abandoned snapshot, and how many staged files and rows
    were removed.

    :param table: the source table and its Delta tables. (templated)
    :param snapshot: LSN of the snapshot to abandon, from ``status``; a cleared task never abandons a
        snapshot that was opened later. (templated)
    :param delete_rows: delete the rows that its waves have committed to bronze; no query result changes.
        (templated)
    """

    template_fields: Sequence[str] = ("table", "snapshot", "delete_rows")
    field_checks: ClassVar = {"snapshot": lsn, "delete_rows": flag_or_template}

    def __init__(self, *, snapshot: str, delete_rows: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.snapshot = snapshot
        self.delete_rows = delete_rows
        self._refuse_wrong_arguments()

    def run_job(self, context: Context) -> dict[str, Any]:
        from airflow_provider_mssql_cdc.jobs.abandon_snapshot import abandon

        try:
            snapshot = Lsn.parse(as_lsn(self.snapshot))
        except ValueError as exc:
            raise ConfigurationError(f"snapshot: {exc}") from exc
        rows = as_flag(self.delete_rows, name="delete_rows")
        done = abandon(self.table, attempt=attempt_of(context), snapshot=snapshot, rows=rows)
        return done.to_json()
