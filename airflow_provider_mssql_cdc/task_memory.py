"""The memory of one task, where several of its tables are in work at the same time."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field

from airflow_provider_mssql_cdc.errors import ConnectionBroken

SMALL_BYTES = 4 << 20
"""Of Parquet: what takes so little does not wait for its turn."""


@dataclass(frozen=True, slots=True)
class _Shared:
    tables: int
    has_ended: Callable[[], bool]
    turn: threading.Lock = field(default_factory=threading.Lock)


_shared: ContextVar[_Shared | None] = ContextVar("memory_of_one_task", default=None)


@contextlib.contextmanager
def shared_by(tables: int, *, has_ended: Callable[[], bool]) -> Iterator[None]:
    """Let so many tables share what one may take. Threads begin in a copy of the caller's context.

    :param has_ended: whether the task was killed, so that nothing large is begun any more.
    """
    token = _shared.set(_Shared(tables, has_ended))
    try:
        yield
    finally:
        _shared.reset(token)


def share_of(size: int) -> int:
    """Return one table's share of a buffer: all of it where the tables are taken one after the other."""
    shared = _shared.get()
    return size if shared is None else max(1, size // shared.tables)


@contextlib.contextmanager
def turn_of(size: Callable[[], int]) -> Iterator[None]:
    """Wait until no other table of the task is in here; what is at most :data:`SMALL_BYTES` does not wait.

    For work whose memory grows with what it is given, so that a share of a buffer would not bound it.

    :param size: bytes of Parquet; asked only where tables are in work at the same time.
    :raises ConnectionBroken: the task was killed while it waited.
    """
    shared = _shared.get()
    if shared is None or size() <= SMALL_BYTES:
        yield
        return
    with shared.turn:
        if shared.has_ended():
            raise ConnectionBroken("the task was killed before this table was merged")
        yield
