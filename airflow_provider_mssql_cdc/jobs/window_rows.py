"""The rows of a window once they are read and staged."""

from __future__ import annotations

from dataclasses import dataclass, replace

from airflow_provider_mssql_cdc.model.capture_instance import CaptureInstance
from airflow_provider_mssql_cdc.model.changes import ChangeCounts, CommitStamp, Window
from airflow_provider_mssql_cdc.model.staged import StagedFile


@dataclass(frozen=True, slots=True)
class WindowRows:
    """The rows of a window as files that nobody sees yet.

    :param window: what was read; it may end earlier than asked for.
    :param until: the commit at its end with its time; None where that is no mapped commit.
    """

    window: Window
    instance: CaptureInstance
    files: tuple[StagedFile, ...]
    counts: ChangeCounts
    until: CommitStamp | None
    batch: int
    read_seconds: float = 0.0
    read_mb: float = 0.0


def merged(one: WindowRows, other: WindowRows) -> WindowRows:
    """Two windows that touch, as one."""
    return replace(
        other,
        window=Window(one.window.after, other.window.until),
        files=one.files + other.files,
        counts=one.counts.plus(other.counts),
        read_seconds=one.read_seconds + other.read_seconds,
        read_mb=one.read_mb + other.read_mb,
    )
