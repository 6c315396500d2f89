"""Transactions that a driver begins and ends by requests of their own (section 2.2.6.9)."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable

from airflow_provider_mssql_cdc.embedded.seam import EngineSession, SqlError
from airflow_provider_mssql_cdc.embedded.tds import requests, tokens

NO_TRANSACTION_TO_ROLL_BACK = 3903


class Transactions:
    """The transactions of one connection; each has a descriptor of eight bytes."""

    def __init__(self, session: EngineSession) -> None:
        self._session = session
        self._numbers = itertools.count(1)
        self._descriptor = b""

    def handle(self, request: requests.TransactionRequest, write: Callable[[bytes], None]) -> None:
        """Do what is asked; ``write`` gets the ENVCHANGE tokens."""
        if request.kind != requests.BEGIN:
            self._end(request.kind, write)
        if request.kind == requests.BEGIN or request.begins_next:
            self._begin(request.isolation, write)

    def _begin(self, isolation: str | None, write: Callable[[bytes], None]) -> None:
        if isolation:
            for _ in self._session.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}"):
                pass
        self._session.begin()
        self._descriptor = struct.pack("<Q", next(self._numbers))
        write(tokens.environment_bytes(tokens.BEGIN_TRANSACTION, self._descriptor))

    def _end(self, kind: int, write: Callable[[bytes], None]) -> None:
        change = tokens.COMMIT_TRANSACTION
        if kind == requests.COMMIT:
            self._session.commit()
        else:
            change = tokens.ROLLBACK_TRANSACTION
            self._roll_back()
        write(tokens.environment_bytes(change, old=self._descriptor))
        self._descriptor = b""

    def _roll_back(self) -> None:
        """A transaction that the server itself has rolled back, as for a deadlock, may be asked for again."""
        try:
            self._session.rollback()
        except SqlError as error:
            if error.number != NO_TRANSACTION_TO_ROLL_BACK:
                raise
