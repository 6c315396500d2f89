"""Sessions that stay open for many jobs: what a job calls ``connect``."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from airflow_provider_mssql_cdc.errors import ConnectionBroken
from airflow_provider_mssql_cdc.source.session import SourceSession

Connect = Callable[[], AbstractContextManager[SourceSession]]
"""Returns a context manager for one job; its session is open while the job runs."""


class KeptSession:
    """Lend one session to one job at a time and keep it open in between: ``run_changes(..., connect=kept)``.

    A failed job closes the session, and the next job gets a new one. Within a job it is never replaced: all
    answers of a job come from one server. It is a context manager; close it after the last job.

    :param opens: returns a session that is not open yet, for example
        :meth:`~..hooks.mssql_cdc.MssqlCdcHook.session`; all tables of a kept session share its connection
        and isolation.
    """

    def __init__(self, opens: Callable[[], SourceSession]) -> None:
        self._opens = opens
        self._session: SourceSession | None = None
        self._lent, self._cancelled = False, False

    @contextlib.contextmanager
    def __call__(self) -> Iterator[SourceSession]:
        """Lend the open session to one job.

        :raises ConnectionBroken: :meth:`cancel` was called.
        :raises RuntimeError: another job is using it.
        """
        if self._lent:
            raise RuntimeError("the session is lent to another job: a session serves one job at a time")
        session, self._lent = self._usable(), True
        try:
            yield session.__enter__()
        except BaseException:
            # The failure may have left a transaction, an isolation level or half of an answer behind.
            self.close()
            raise
        finally:
            self._lent = False

    def _usable(self) -> SourceSession:
        if self._session is None or self._session.has_ended:
            self._session = self._opens()
        if self._cancelled:  # looked at last: the signal may come at any line
            raise ConnectionBroken("this task was killed, so it does not connect")
        return self._session

    def cancel(self, *, wait: bool = True) -> None:
        """Cancel the running statement and lend no more sessions; safe in signal handlers and threads.

        :param wait: maximum seconds to wait for the statement to end.
        """
        self._cancelled = True
        if (session := self._session) is not None:
            session.cancel(wait=wait)

    def close(self) -> None:
        """Close the connection; the next job opens another. Idempotent, never raises."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def __enter__(self) -> KeptSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class TaskSessions:
    """The sessions of one task: one per thread and isolation level.

    Both drivers allow threads to share the module but not a connection (PEP 249, ``threadsafety`` 1), and a
    job relies on all of its answers coming from one session. It is a context manager; close it on the main
    thread after the other threads have ended.

    :param opens: returns a session of an isolation level that is not open yet.
    """

    def __init__(self, opens: Callable[[str | None], SourceSession]) -> None:
        self._opens = opens
        self._kept: dict[tuple[int, str | None], KeptSession] = {}
        self.cancelled = False

    def __call__(self, isolation: str | None) -> KeptSession:
        """Return the calling thread's session; it connects when the first job needs it."""
        key = threading.get_ident(), isolation
        if key not in self._kept:
            self._kept[key] = KeptSession(lambda: self._opens(isolation))
        if self.cancelled:  # looked at last: the signal may come at any line
            self._kept[key].cancel()
        return self._kept[key]

    def cancel(self) -> None:
        """Cancel the running statements and lend no more sessions; safe in signal handlers."""
        self.cancelled = True
        for wait in (False, True):  # all of them are cut before one is waited for
            for session in list(self._kept.values()):
                session.cancel(wait=wait)

    def close(self) -> None:
        """Close all connections. Idempotent, never raises."""
        for session in list(self._kept.values()):
            session.close()

    def __enter__(self) -> TaskSessions:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
