"""Trying a Delta commit again when another one won, each time deciding anew."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from deltalake import CommitProperties
from deltalake.exceptions import CommitFailedError

from airflow_provider_mssql_cdc.errors import CommitConflict, IncompletePlan

log = logging.getLogger(__name__)

MAX_TRIES = 40
_LONGEST_PAUSE_SECONDS = 2.0

CREATE_ONCE = CommitProperties(max_commit_retries=0)
"""For the commit that creates a table: with its retries delta-rs lets two creators both succeed, the later
one putting its metadata over the first one's in a version of its own (tried, 1.6.6)."""

Outcome = TypeVar("Outcome")


def until_committed(
    try_once: Callable[[], Outcome],
    *,
    what: str,
    reload: Callable[[], object] | None = None,
    tries: int = MAX_TRIES,
) -> Outcome:
    """Call ``try_once`` until no other commit gets in its way.

    ``try_once`` decides on a handle and commits with that one handle. delta-rs has its own 15 attempts
    inside each try; they keep the decision, and give up when many write at once or when the decision
    itself is overtaken. The pauses grow and are random, so that two do not collide again.

    A commit of another that makes staged files needless may remove them before this one looks: when files
    are missing it is decided once more on the newest version, and they are missed only if they are needed.

    :param reload: called before each further try, to decide on the newest version.
    :raises CommitConflict: after ``tries`` of them; the pauses of 40 add up to half a minute or so.
    :raises IncompletePlan: staged files are missing, and nobody has made them needless.
    """
    missed = False
    for number in range(1, tries + 1):
        try:
            return try_once()
        except IncompletePlan as exc:
            if missed or reload is None:
                raise
            log.debug("%s: %s; looking again", what, exc)
            missed = True
            reload()
        except CommitFailedError as exc:
            if number == tries:
                raise CommitConflict(
                    f"{what}: another commit was first, {tries} times in a row ({exc}). Nothing was "
                    "written by this attempt; it can be tried again"
                ) from exc
            log.debug("%s: try %d lost to another commit: %s", what, number, exc)
            time.sleep(random.uniform(0, min(_LONGEST_PAUSE_SECONDS, 0.02 * 2**number)))
            if reload is not None:
                reload()
    raise AssertionError("unreachable")  # the last try returns or raises
