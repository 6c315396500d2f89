"""The SQLite file of a database: connections, the writer lock, the stored catalog, callable functions."""

from __future__ import annotations

import itertools
import pickle
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog
from airflow_provider_mssql_cdc.embedded.engine.values import collations
from airflow_provider_mssql_cdc.embedded.seam import SqlError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from pathlib import Path
    from types import TracebackType

    from airflow_provider_mssql_cdc.embedded.engine.run.engine import Engine
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


@dataclass(frozen=True, slots=True)
class PooledFunction:
    """``bound``: called with the link first."""

    call: Callable[..., Any]
    deterministic: bool
    bound: bool


class FunctionPool:
    """Names for callables; the same key gives the same name."""

    def __init__(self) -> None:
        self.permanent: set[str] = set()
        self._functions: dict[str, PooledFunction] = {}
        self._names: dict[Hashable, str] = {}
        self._numbers = itertools.count(1)
        self._guard = threading.Lock()

    def name(
        self,
        key: Hashable,
        call: Callable[..., Any],
        *,
        deterministic: bool = True,
        bound: bool = False,
    ) -> str:
        with self._guard:
            name = self._names.get(key)
            if name is None:
                name = f"f{next(self._numbers)}"
                self._names[key] = name
                self._functions[name] = PooledFunction(call, deterministic, bound)
            return name

    def add_permanent(self, name: str, call: Callable[..., Any]) -> None:
        """A function under its own name that triggers may call; called with the link first."""
        self._functions[name] = PooledFunction(call, False, True)
        self.permanent.add(name)

    def register(self, link: Link, name: str) -> None:
        function = self._functions[name]
        call = function.call

        def guarded(*arguments: Any) -> Any:
            try:
                return call(*arguments)
            except Exception as exc:
                link.error = exc
                raise

        def guarded_bound(*arguments: Any) -> Any:
            try:
                return call(link, *arguments)
            except Exception as exc:
                link.error = exc
                raise

        wrapped = guarded_bound if function.bound else guarded
        link.connection.create_function(name, -1, wrapped, deterministic=function.deterministic)


@dataclass(frozen=True, slots=True)
class StatementReads:
    """``tables``: rows or index entries visited, by "schema.table"."""

    sql: str
    tables: dict[str, int]


@dataclass(slots=True)
class Reads:
    """What was counted while the context was open, in the order in which statements ended."""

    engine: Engine
    statements: list[StatementReads] = field(default_factory=list)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Reads:
        self.engine.counters.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.counters.remove(self)

    def record(self, sql: str, tables: dict[str, int]) -> None:
        with self._guard:
            self.statements.append(StatementReads(sql, dict(tables)))

    def total(self, table: str | None = None) -> int:
        """Rows visited, in one table or in all."""
        return sum(n for s in self.statements for t, n in s.tables.items() if table in (None, t))


_VERSIONS = itertools.count(1)
_WAIT_STEP_SECONDS = 0.05


class Link:
    """One SQLite connection and what its functions need to know: the session, counters, the last error."""

    def __init__(self, path: Path, pool: FunctionPool) -> None:
        self.connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
        self.connection.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF; PRAGMA temp_store=MEMORY; PRAGMA "
            "cache_size=-32000;"
        )
        self.session: Session | None = None
        self.error: Exception | None = None
        self.reads: dict[str, int] = {}
        self.views: dict[str, Any] = {}
        self._pool = pool
        self._functions: set[str] = set()
        self._collations: set[str] = {"RTRIM"}
        self.know_collations([collations.INSTANT])
        for name in pool.permanent:
            self._register(name)

    def know_collations(self, names: Iterable[str]) -> None:
        for name in set(names) - self._collations:
            if name == collations.INSTANT or collations.sqlite_name(name) == name:
                collations.register(self.connection, name)
            self._collations.add(name)

    def know_functions(self, names: Iterable[str]) -> None:
        for name in set(names) - self._functions:
            self._register(name)

    def _register(self, name: str) -> None:
        self._pool.register(self, name)
        self._functions.add(name)

    def failed(self, exc: BaseException) -> BaseException:
        """The SqlError that a function raised inside SQLite, if that is what failed."""
        error, self.error = self.error, None
        return error or exc

    def roll_back(self) -> None:
        """Temporary tables that a transaction made go with it."""
        self.views.clear()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def version(self) -> int:
        return int(self.connection.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        self.connection.close()


class WriterLock:
    """One writer at a time; waits as LOCK_TIMEOUT says."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._owner: Session | None = None

    @property
    def owner(self) -> Session | None:
        return self._owner

    def acquire(self, owner: Session, timeout_ms: int, check: Callable[[], None]) -> None:
        """``timeout_ms`` -1 waits forever; ``check`` raises when the wait is cancelled. Error 1222."""
        deadline = None if timeout_ms < 0 else time.monotonic() + timeout_ms / 1000
        with self._condition:
            while self._owner is not None:
                check()
                left = _WAIT_STEP_SECONDS if deadline is None else deadline - time.monotonic()
                if left <= 0:
                    raise SqlError(1222, "Lock request time out period exceeded.", 16, 56)
                self._condition.wait(min(left, _WAIT_STEP_SECONDS))
            self._owner = owner

    def release(self) -> None:
        with self._condition:
            self._owner = None
            self._condition.notify_all()


class Database:
    """One database of one engine (or of one replica)."""

    def __init__(self, path: Path, database_id: int, pool: FunctionPool, *, read_only: bool = False) -> None:
        self.path, self.database_id, self.read_only = path, database_id, read_only
        self.lock = WriterLock()
        self.identities: dict[int, int] = {}
        self.last_rowversion = (2000).to_bytes(8, "big")
        self.transactions = itertools.count(1)
        self._pool = pool
        self._free: list[Link] = []
        self._all: list[Link] = []
        self._catalogs: dict[int, Catalog] = {}
        self._guard = threading.Lock()

    def next_rowversion(self) -> bytes:
        """@@DBTS, raised by one."""
        self.last_rowversion = (int.from_bytes(self.last_rowversion, "big") + 1).to_bytes(8, "big")
        return self.last_rowversion

    def create(self, catalog: Catalog) -> None:
        """Write the first catalog into a new file."""
        link = self.take(None)
        link.connection.execute('CREATE TABLE "$catalog" (id, value)')
        link.connection.execute('INSERT INTO "$catalog" VALUES (1, NULL)')
        self.store(link, catalog)
        self.give(link)

    def take(self, session: Session | None) -> Link:
        """A connection of one's own, until it is given back."""
        with self._guard:
            link = self._free.pop() if self._free else None
        if link is None:
            link = Link(self.path, self._pool)
            self._all.append(link)
        link.session, link.error = session, None
        return link

    def give(self, link: Link) -> None:
        if link.connection.in_transaction:
            link.roll_back()
        link.session = None
        with self._guard:
            self._free.append(link)

    def dirty(self) -> Link | None:
        """Where READ UNCOMMITTED reads while another session writes."""
        owner = self.lock.owner
        return None if owner is None else owner.transactions.written(self)

    def store(self, link: Link, catalog: Catalog) -> None:
        """Write a catalog, within the transaction that is open on the link if there is one."""
        catalog.version = next(_VERSIONS)
        link.connection.execute('UPDATE "$catalog" SET value = ?', (pickle.dumps(catalog),))
        link.connection.execute(f"PRAGMA user_version = {catalog.version}")

    def catalog(self, link: Link) -> Catalog:
        """The catalog as this connection sees it; its collations and functions are known afterwards."""
        version = link.version()
        catalog = self._catalogs.get(version)
        if catalog is None:
            value = link.connection.execute('SELECT value FROM "$catalog"').fetchone()[0]
            catalog = pickle.loads(value)
            if len(self._catalogs) > 50:
                self._catalogs.clear()
            self._catalogs[version] = catalog
        link.know_collations(catalog.collations())
        link.know_functions(catalog.functions)
        return catalog

    def close(self) -> None:
        for link in self._all:
            link.close()
        self._all.clear()
        self._free.clear()
