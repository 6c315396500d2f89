"""Shared by all tasks: ends of a job without a result, storage errors, and test hooks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from airflow_provider_mssql_cdc.errors import StorageFailed


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job had nothing to do, or nothing further; not an error. ``reason`` is one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job must be called again later; ``reason`` is one sentence.

    :param at: instant that capture must pass first; None when the job waits for other tasks.
    """

    reason: str
    at: datetime | None = None


_DRAWING = re.compile(r"\x1b\[\d+m|↳")


def storage_failed(subject: str, error: OSError) -> StorageFailed:
    """Convert an error of a file system or object store to an error of this package.

    :param subject: the table or database, as named in logs.
    :param error: delta-rs and Arrow raise it for every storage error; drivers do not.
    """
    # delta-rs draws the chain of causes as a tree in colours; a message has one line.
    said = " ".join(_DRAWING.sub(" ", str(error)).split())
    return StorageFailed(
        f"{subject}: the storage of its Delta tables failed: {said}. Check the paths, delta_conn_id or "
        "storage_options, and the store itself"
    )


Step = Literal[
    "opened",  # the open is in bronze
    "plan begun",  # how the table is cut is stored
    "bounds stored",  # some bounds are
    "planned",  # all of them and the waves are
    "stamped",  # the wave has its stamp
    "read",  # a chunk has been read and staged
    "staged",  # all of the wave's have
    "committed",  # the deciding commit has been made
    "reported",  # the facts row is written
]

OnStep = Callable[[Step], None]


def unwatched(step: Step) -> None:
    """Do nothing at any step; the default for ``on_step``."""
