"""Jobs that end anywhere: a process that is killed at some call of the package's own code."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_PACKAGE = "/airflow_provider_mssql_cdc/"
_FIRST_GUESS = 3000


class Killed(BaseException):
    """The end, here and now; nothing that catches errors catches it."""


class Mortal:
    """Calls jobs and ends some of them, each call of the package's own being as likely as any other.

    How many calls a kind of job makes is learned from those that live.
    """

    def __init__(self, rng: random.Random, *, share: float) -> None:
        self._rng, self._share = rng, share
        self._calls: dict[str, int] = {}
        self.killed = 0

    def call(self, kind: str, job: Callable[[], T]) -> T:
        """What the job returns. Raises Killed, in this thread alone."""
        known = self._calls.get(kind, _FIRST_GUESS)
        last = self._rng.randrange(known) if self._rng.random() < self._share else None
        calls = 0

        def watch(frame: FrameType, event: str, _: Any) -> None:
            nonlocal calls
            if event == "call" and _is_the_packages(frame.f_code.co_filename):
                calls += 1
                if calls == last:
                    self.killed += 1
                    raise Killed(f"{kind}: call {calls}, {frame.f_code.co_qualname}")

        sys.setprofile(watch)
        try:
            done = job()
        finally:
            sys.setprofile(None)
        self._calls[kind] = max(calls, self._calls.get(kind, 0))
        return done


def _is_the_packages(file: str) -> bool:
    return _PACKAGE in file and "/embedded/" not in file
