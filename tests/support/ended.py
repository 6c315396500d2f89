"""A task that is ended at a chosen moment, by an exception such as Airflow's signal handler raises."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal


class Ended(BaseException):
    """The task is to end, here and now."""


@contextmanager
def ended_at(
    function: str, moment: Literal["call", "return"], *, raising: Callable[[], BaseException] = Ended
) -> Iterator[None]:
    """Raise once when a function of this name (``Class.method``) is entered, or has just done its work."""
    left = [True]

    def watch(frame: FrameType, event: str, _: Any) -> None:
        if event == moment and left and frame.f_code.co_qualname == function:
            left.clear()
            raise raising()

    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(None)
    assert not left, f"{function} was never reached"
