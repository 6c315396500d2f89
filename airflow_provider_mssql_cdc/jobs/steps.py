"""The moments between two effects of a job, told to whoever wants to watch; a test ends the process there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

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
    """Nobody watches."""
