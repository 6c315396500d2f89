"""The engine: databases, logins, registries, replicas."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
import zoneinfo
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow_provider_mssql_cdc.embedded.engine.compile.clock_functions import now_units
from airflow_provider_mssql_cdc.embedded.engine.run import procedures
from airflow_provider_mssql_cdc.embedded.engine.run.registry import (
    Hooks,
    Registry,
)
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.run.storage import Database, Link, Reads
from airflow_provider_mssql_cdc.embedded.engine.schema import views
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.engine.values.collations import DEFAULT, collation
from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

_SYSTEM_DATABASES = ("master", "tempdb", "model", "msdb")


class Engine:
    """All databases of one server. ``directory`` None makes a temporary one that ``close`` removes.

    ``time_zone``: the server's local zone (IANA), for GETDATE and its like.
    ``utc_units`` may be replaced: the clock, UTC, in units of 100 ns since 0001-01-01.
    """

    def __init__(
        self,
        directory: Path | None = None,
        *,
        password: str = "",
        collation_name: str = DEFAULT,
        time_zone: str = "UTC",
    ) -> None:
        self._temporary = directory is None
        self.directory = (
            Path(tempfile.mkdtemp(prefix="embedded-sql-")) if directory is None else Path(directory)
        )
        self.directory.mkdir(parents=True, exist_ok=True)
        self.collation: str = collation(collation_name).name
        self.time_zone: str = time_zone
        self.utc_units: Callable[[], int] = now_units
        self.registry = Registry()
        self.counters: list[Reads] = []
        self._logins: dict[str, tuple[str, str]] = {"sa": ("sa", password)}
        self._databases: dict[str, Database] = {}
        self._replicas: dict[str, dict[str, Database]] = {}
        self._database_numbers = itertools.count(1)
        self._session_numbers = itertools.count(51)
        self._guard = threading.RLock()
        self._cache: dict[Any, Any] = {}
        self.listed_ids: dict[str, int] = {}  # of sys.databases, where it is not DB_ID(), as on Azure
        self.sessions: list[Session] = []
        self.registry.pool.add_permanent("session_transaction", _transaction_number)
        self.registry.pool.add_permanent("session_statement", _statement_number)
        views.register(self.registry)
        procedures.register(self.registry)
        for name in _SYSTEM_DATABASES:
            self.create_database(name)

    @property
    def hooks(self) -> Hooks:
        return self.registry.hooks

    @property
    def cache(self) -> dict[Any, Any]:
        """Compiled statements; emptied when it grows."""
        if len(self._cache) > 2000:
            self._cache.clear()
        return self._cache

    def register_procedure(
        self, name: str, call: Callable[..., Any], *, parameters: Iterable[str] = ()
    ) -> None:
        self.registry.add_procedure(name, call, parameters)

    def register_scalar(
        self,
        name: str,
        call: Callable[..., Any],
        *,
        returns: SqlType,
        parameters: Sequence[SqlType] = (),
        constant: bool = True,
    ) -> None:
        self.registry.add_scalar(name, call, returns, parameters, constant=constant)

    def count_reads(self) -> Reads:
        """A context that records how many rows each statement visits."""
        return Reads(self)

    def utc_offset_minutes(self, units: int) -> int:
        """The server zone's offset at a moment of UTC (units of 100 ns since 0001-01-01)."""
        if self.time_zone == "UTC":
            return 0
        moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(microseconds=units // 10)
        offset = moment.astimezone(zoneinfo.ZoneInfo(self.time_zone)).utcoffset() or timedelta()
        return int(offset.total_seconds() // 60)

    def create_database(self, name: str, collation_name: str | None = None) -> Database:
        """Error 1801."""
        with self._guard:
            if name.casefold() in self._databases:
                raise SqlError(1801, f"Database '{name}' already exists. Choose a different database name.")
            number = next(self._database_numbers)
            database = Database(self.directory / f"{number}.db", number, self.registry.pool)
            catalog = Catalog(name, collation(collation_name).name if collation_name else self.collation)
            database.create(catalog)
            self._databases[name.casefold()] = database
            return database

    def drop_database(self, name: str, *, if_exists: bool = False) -> None:
        """Errors 3701, 3702 (in use)."""
        with self._guard:
            database = self.find_database(name)
            if database is None:
                if if_exists:
                    return
                raise SqlError(
                    3701,
                    f"Cannot drop the database '{name}', because it does not exist or you do not have "
                    "permission.",
                    11,
                )
            if any(s.database.casefold() == name.casefold() and not s.internal for s in self.sessions):
                raise SqlError(3702, f'Cannot drop database "{name}" because it is currently in use.')
            for hook in self.hooks.drop_database:
                hook(name)
            for session in list(self.sessions):
                session.forget(database)
            del self._databases[name.casefold()]
            database.close()

    def find_database(self, name: str, replica: str | None = None) -> Database | None:
        databases = self._databases if replica is None else self._replicas.get(replica, {})
        return databases.get(name.casefold())

    def databases_of(self, replica: str | None = None) -> list[tuple[str, Database]]:
        """(name, database), by database_id."""
        databases = self._databases if replica is None else self._replicas[replica]
        return [(self.catalog_of(d).name, d) for d in databases.values()]

    def catalog_of(self, database: Database) -> Catalog:
        """The last committed catalog of a database."""
        link = database.take(None)
        try:
            return database.catalog(link)
        finally:
            database.give(link)

    def create_login(self, name: str, password: str) -> None:
        """Error 15025."""
        if self.has_login(name):
            raise SqlError(15025, f"The server principal '{name}' already exists.")
        self._logins[name.casefold()] = (name, password)

    def drop_login(self, name: str) -> None:
        if self._logins.pop(name.casefold(), None) is None:
            raise SqlError(
                15151,
                f"Cannot drop the login '{name}', because it does not exist or you do not have permission.",
            )

    def logins(self) -> list[str]:
        """Names of all logins."""
        return [name for name, _ in self._logins.values()]

    def has_login(self, name: str) -> bool:
        return name.casefold() in self._logins

    def may_enter(self, session: Session, database: Database) -> bool:
        """A sysadmin, or a login with a user in the database; everybody may enter master and tempdb."""
        catalog = self.catalog_of(database)
        if session.is_sysadmin or catalog.name in ("master", "tempdb", "msdb"):
            return True
        login = session.login_name.casefold()
        return any(p.login is not None and p.login.casefold() == login for p in catalog.principals.values())

    def login(self, user: str, password: str, database: str, *, replica: str | None = None) -> Session:
        """A new session. Errors 18456, 4060."""
        known = self._logins.get(user.casefold())
        if known is None or known[1] != password:
            raise SqlError(18456, f"Login failed for user '{user}'.", 14, 1)
        if replica is not None and replica not in self._replicas:
            raise SqlError(18456, f"Login failed for user '{user}'.", 14, 1)
        wanted = self.find_database(database or "master", replica)
        session = Session(self, next(self._session_numbers), known[0], replica=replica)
        if wanted is None or not self.may_enter(session, wanted):
            raise SqlError(
                4060, f'Cannot open database "{database}" requested by the login. The login failed.', 11
            )
        session.enter(wanted)
        self.sessions.append(session)
        return session

    def system_session(self, database: str, *, replica: str | None = None) -> Session:
        """A sysadmin's session for the server's own work. Error 911."""
        session = Session(self, next(self._session_numbers), "sa", replica=replica, internal=True)
        wanted = self.find_database(database, replica)
        if wanted is None:
            raise SqlError(
                911, f"Database '{database}' does not exist. Make sure that the name is entered correctly."
            )
        session.enter(wanted)
        self.sessions.append(session)
        return session

    def add_replica(self, name: str) -> None:
        """A second, read-only set of databases, as of now."""
        self._replicas.setdefault(name, {})
        self.redo(name)

    def redo(self, name: str) -> None:
        """Bring a replica's databases to the primary's last commit."""
        with self._guard:
            copies = self._replicas[name]
            for key, database in self._databases.items():
                if key not in copies:
                    path = (
                        self.directory
                        / f"{database.database_id}-{len(self._replicas)}-{name.encode().hex()}.db"
                    )
                    copies[key] = Database(path, database.database_id, self.registry.pool, read_only=True)
                self.copy_database(database, copies[key])
            for key in set(copies) - set(self._databases):
                copies.pop(key).close()

    def copy_database(self, database: Database, copy: Database) -> None:
        """All of one database in place of all of another."""
        source, target = database.take(None), copy.take(None)
        try:
            source.connection.backup(target.connection)
        finally:
            database.give(source)
            copy.give(target)

    def close(self) -> None:
        for session in list(self.sessions):
            session.close()
        for database in [
            *self._databases.values(),
            *(d for c in self._replicas.values() for d in c.values()),
        ]:
            database.close()
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


def _transaction_number(link: Link) -> int:
    return 0 if link.session is None else link.session.transaction_number


def _statement_number(link: Link) -> int:
    return 0 if link.session is None else link.session.statement_number
