"""Whether changes still lead on from a position, asked on the session that needs it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source.watermarks import is_retained, low

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


def refuse_unretained(
    session: SourceSession, instance: CaptureInstance, *, position: Lsn, label: str
) -> None:
    """Fail when CDC cleanup has purged changes just above ``position``.

    :raises RetentionGap: with the position, the low watermark and the remedy.
    """
    lowest = low(session, instance)
    if not is_retained(position, lowest):
        raise RetentionGap(
            f"{label}: the snapshot's LSN {position} has left CDC's retention (the lowest change kept is "
            f"at {lowest}), so no change can lead on from it. Nothing was committed. Start a new run; if "
            "reading takes longer than retention, raise it (sys.sp_cdc_change_job @job_type = 'cleanup', "
            "@retention = minutes) or load in chunks"
        )
