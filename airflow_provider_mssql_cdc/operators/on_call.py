"""For the people on call: how far a load is, and giving one up."""

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
    """Say how far the load of a table is; changes nothing.

    It returns ``{"state", "snapshot", "complete_snapshot", "waves_done", "waves", "chunks_done", "chunks",
    "rows", "rows_per_second", "expected_end", "position", "headroom_hours", "note"}`` and logs it.

    :param table: whose load it is. (templated)
    :param ask_server: connect, and say how much headroom the changes in bronze have; ``note`` then tells
        when they lead on no more, or capture stands still. (templated)
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
    """Give up the chunked snapshot that is being loaded: its waves fail from now on, a new run opens another.

    Changes go on as they are, and a complete snapshot stays what it is. Nothing is given up when nothing is
    being loaded. It returns ``{"snapshot", "files", "rows"}``: what was given up, how many staged files and
    rows were removed.

    :param table: whose load it is. (templated)
    :param snapshot: give up the snapshot of this LSN alone, as ``status`` names it: when the task is cleared
        later, another load that was begun meanwhile is left alone. (templated)
    :param delete_rows: delete what its waves have written to bronze; it is used by nobody. (templated)
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
