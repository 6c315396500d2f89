"""Whether capture has passed what somebody waits for, and if not, why as far as this login can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.model.capture import CaptureTarget
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.source.catalog import describe
from airflow_provider_mssql_cdc.source.instances import choose_instance, visible_instances
from airflow_provider_mssql_cdc.source.watermarks import (
    commits_before,
    entry_past,
    how_far,
    now,
)

if TYPE_CHECKING:
    from airflow_provider_mssql_cdc.source.session import SourceSession


@dataclass(frozen=True, slots=True)
class CaptureAnswer:
    """One look.

    :param passed: the LSN by which capture has passed the target; None while it has not.
    :param reason: how far capture is, or what is wrong with it.
    """

    passed: Lsn | None
    reason: str


def look_at_capture(
    session: SourceSession,
    target: CaptureTarget,
    *,
    capture_instance: str,
    source: tuple[str, str] | None = None,
) -> CaptureAnswer:
    """Ask once, on one session.

    :raises SourceObjectMissing: there is no such capture instance.
    :raises PermissionDenied: it is not visible to this login; names the GRANTs.
    """
    passed = _passed(session, target, capture_instance=capture_instance, source=source)
    if passed is not None:
        return CaptureAnswer(passed, f"capture has passed {target} at {passed}")
    return CaptureAnswer(None, f"capture has not passed {target}: {how_far(session)}")


def _passed(
    session: SourceSession, target: CaptureTarget, *, capture_instance: str, source: tuple[str, str] | None
) -> Lsn | None:
    if target.time is not None:
        return commits_before(session, target.time)[1]
    if target.horizon is not None:
        return entry_past(session, target.horizon)
    instance = choose_instance(visible_instances(session, source), capture_instance)
    if instance is None:
        instance = describe(session, capture_instance=capture_instance, source=source).instance
    reached = now(session, instance)
    assert target.lsn is not None
    return reached if reached >= target.lsn else None
