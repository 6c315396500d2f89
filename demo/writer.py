"""Somebody who goes on working: commits changes to the flights while they are read."""

from __future__ import annotations

import random
import threading
from types import TracebackType
from typing import Self

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

_PAUSE_SECONDS = 0.25


class Writer:
    """A thread that commits a transaction every quarter of a second until it is stopped."""

    def __init__(self, server: EmbeddedSqlServer, flights: int) -> None:
        self.server, self.flights = server, flights
        self.commits = 0
        self._random = random.Random(2013)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self._commit()

    def _commit(self) -> None:
        """Flights are delayed, cancelled, added and renumbered, in one transaction."""
        picked = self._random.randrange(1, self.flights)
        self.commits += 1
        moved = self.flights + 1_000_000 + self.commits
        with self.server.session() as session:
            session.run("BEGIN TRANSACTION")
            session.rows(
                "UPDATE dbo.flights SET dep_delay = dep_delay + 1 WHERE flight_id BETWEEN ? AND ?",
                picked,
                picked + 20,
            )
            session.rows(
                "DELETE FROM dbo.flights WHERE flight_id = ?", self._random.randrange(1, self.flights)
            )
            session.rows(
                "INSERT INTO dbo.flights (flight_id, carrier, origin) VALUES (?, 'UA', 'EWR')",
                self.flights + self.commits,
            )
            session.rows(
                "UPDATE dbo.flights SET flight_id = ? WHERE flight_id = ?",
                moved,
                self._random.randrange(1, self.flights),
            )
            session.run("COMMIT TRANSACTION")
