"""What every task shares: how a job ends without a result, and the points that a test may watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal


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
