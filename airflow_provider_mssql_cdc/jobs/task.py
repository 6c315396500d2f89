"""What every task shares: how a job ends without a result or on its storage, and points a test may watch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from airflow_provider_mssql_cdc.errors import StorageFailed


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job did nothing, or no more than it had done, and nothing is wrong; ``reason`` is one sentence."""

    reason: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The job has to be called again later; ``reason`` is one sentence.

    :param at: capture has to pass this instant first; None when the job waits for other tasks.
    """

    reason: str
    at: datetime | None = None


_DRAWING = re.compile(r"\x1b\[\d+m|↳")


def storage_failed(subject: str, error: OSError) -> StorageFailed:
    """Return the error of this package for a failure of a file system or an object store.

    :param subject: the table or database, as logs call it.
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
    """Do nothing at any step."""
