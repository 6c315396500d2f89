"""``EmbeddedSqlServer``: the embedded server as one object, for tests and demos."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args

from airflow_provider_mssql_cdc.embedded.cdc import install, lsn
from airflow_provider_mssql_cdc.embedded.cdc.clock import ServerClock
from airflow_provider_mssql_cdc.embedded.cdc.images import CommandIds, KeyUpdates
from airflow_provider_mssql_cdc.embedded.cdc.service import CaptureMode
from airflow_provider_mssql_cdc.embedded.connection import airflow_connection
from airflow_provider_mssql_cdc.embedded.control import register_control
from airflow_provider_mssql_cdc.embedded.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.parser.tokens import bracket
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.faults import Faults, FaultyEngine
from airflow_provider_mssql_cdc.embedded.listener import Listener, Replica

SA_PASSWORD = "Embedded-1-Server"
"""The password of sa: the server listens on loopback only and holds test data."""


class EmbeddedSqlServer:
    """A SQL Server stand-in on 127.0.0.1, from construction (or ``with``) until ``close``.

    ::

        with EmbeddedSqlServer(database="demo") as server:
            server.execute("CREATE TABLE dbo.orders (id int PRIMARY KEY, amount decimal(10, 2))")
            os.environ["AIRFLOW_CONN_ERP"] = server.airflow_connection()

    mssql-python keeps Python's lock while it fetches a value of some hundred kilobytes: a server in the same
    process could never send the rest of it, and both would wait forever. For tables with such values run it
    in a separate process, ``python -m airflow_provider_mssql_cdc.embedded``, or read them by pymssql.

    :param database: the database to create and to run ``execute`` in.
    :param port: port to listen on; 0 takes a free one.
    :param tls: "off", "login" (the login is encrypted; the rest when the client asks) or "required".
    :param directory: where the databases' files go; a temporary directory by default.
    :param time_zone: the server's zone, by IANA name: commit times are its local time.
    :param collation: of the database; SQL_Latin1_General_CP1_CI_AS by default.
    """

    def __init__(
        self,
        database: str = "demo",
        *,
        port: int = 0,
        tls: str = "off",
        directory: str | Path | None = None,
        time_zone: str = "UTC",
        collation: str | None = None,
    ) -> None:
        self.database, self.tls = database, tls
        self._temporary = None if directory else tempfile.TemporaryDirectory(prefix="mssql-embedded-")
        folder = Path(directory or self._temporary.name)  # type: ignore[union-attr]
        self.clock = ServerClock(time_zone)
        self._passwords = {"sa": SA_PASSWORD}
        self.engine = Engine(folder, password=SA_PASSWORD, time_zone=time_zone)
        self.engine.utc_units = self.clock.units
        self.faults: Faults = Faults()
        self.front = FaultyEngine(self.engine, self.faults, self.clock.utc)
        self.cdc = install(self.engine, self.clock)
        self._replicas: dict[str, Replica] = {}
        register_control(self)
        self.create_database(database, collation=collation)
        self._listener = Listener(self.front, port=port, tls=tls)

    # -- life ---------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and delete a temporary directory; safe to repeat."""
        self.faults.clear()
        for replica in self._replicas.values():
            replica.close()
        self._replicas.clear()
        self._listener.close()
        self.engine.close()
        if self._temporary is not None:
            self._temporary.cleanup()

    def restart(self) -> None:
        """Drop every connection and listen again on the same port, with the same data."""
        port = self.port
        self._listener.close()
        self._listener = Listener(self.front, port=port, tls=self.tls)

    def drop_connections(self) -> None:
        """End every connection at once, without an answer; new ones are accepted."""
        self._listener.drop_connections()

    # -- ways in ------------------------------------------------------------------------------------

    @property
    def host(self) -> str:
        """The address it listens on."""
        return self._listener.host

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._listener.port

    def password_of(self, login: str) -> str:
        """The password that a login was added with; raises KeyError for an unknown login."""
        return self._passwords[login.lower()]

    def airflow_connection(
        self,
        *,
        login: str = "sa",
        password: str | None = None,
        database: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> str:
        """The connection's JSON for an ``AIRFLOW_CONN_*`` variable.

        :param extra: connection extras, added to those that fit the server's TLS mode.
        """
        return airflow_connection(
            host=self.host,
            port=self.port,
            login=login,
            password=self.password_of(login) if password is None else password,
            database=database or self.database,
            tls=self.tls,
            extra=extra,
        )

    def session(self, login: str = "sa", *, database: str | None = None) -> Session:
        """A session without a driver and without faults; close it. ``session.rows(sql, *params)`` reads."""
        return self.engine.login(login, self.password_of(login), database or self.database)

    def execute(self, sql: str, *parameters: Any, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run T-SQL as sysadmin, without a driver, committed; the last result's rows as Python values.

        ``?`` stands for a parameter. Values are Decimal, datetime, date, time, UUID, bytes, str, bool ...
        """
        with self.engine.system_session(database or self.database) as session:
            return session.rows(sql, *parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], *, database: str | None = None) -> int:
        """Run one INSERT, UPDATE or DELETE with ``?`` for each row, in one transaction; rows touched."""
        with self.engine.system_session(database or self.database) as session:
            return session.executemany(sql, rows)

    @property
    def time_zone(self) -> str:
        """The server's time zone, an IANA name; its local time is what commit times show."""
        return self.engine.time_zone

    @time_zone.setter
    def time_zone(self, name: str) -> None:
        self.clock.zone = name
        self.engine.time_zone = name

    # -- what a test sets up ------------------------------------------------------------------------

    def create_database(self, name: str, *, collation: str | None = None) -> None:
        """Create a database if there is none of this name."""
        with self.engine.system_session("master") as session:
            if not session.rows("SELECT 1 FROM sys.databases WHERE name = ?", name):
                tail = f" COLLATE {collation}" if collation else ""
                session.run(f"CREATE DATABASE {bracket(name)}{tail}")

    def restore(self, other: EmbeddedSqlServer) -> None:
        """Take over the other server's database of this name, as it is now; both go on by themselves."""
        mine, theirs = self.engine.find_database(self.database), other.engine.find_database(self.database)
        assert mine is not None
        assert theirs is not None
        self.engine.copy_database(theirs, mine)
        self.cdc.forget(self.database)

    def add_login(
        self,
        name: str,
        password: str = "Reader-1-Password",
        *,
        database: str | None = None,
        roles: Iterable[str] = (),
        grants: Iterable[str] = (),
    ) -> None:
        """A login with a user of the same name in the database.

        :param roles: database roles to join, made when they are missing.
        :param grants: what to GRANT, e.g. ``"SELECT ON dbo.orders"``.
        """
        user = bracket(name)
        quoted = password.replace("'", "''")
        self.execute(f"CREATE LOGIN {user} WITH PASSWORD = '{quoted}', CHECK_POLICY = OFF", database="master")
        self._passwords[name.lower()] = password
        self.execute(f"CREATE USER {user} FOR LOGIN {user}", database=database)
        for role in roles:
            if not self.execute(
                "SELECT 1 FROM sys.database_principals WHERE name = ?", role, database=database
            ):
                self.execute(f"CREATE ROLE {bracket(role)}", database=database)
            self.execute(f"ALTER ROLE {bracket(role)} ADD MEMBER {user}", database=database)
        for grant in grants:
            self.execute(f"GRANT {grant} TO {user}", database=database)

    def enable_cdc(self, table: str | None = None, *, database: str | None = None, **arguments: Any) -> None:
        """Enable CDC on the database if it is off, then on ``schema.table`` if one is given.

        :param arguments: those of ``sys.sp_cdc_enable_table``, without ``@``.
        """
        if not self.execute(
            "SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 1",
            database=database,
        ):
            self.execute("EXEC sys.sp_cdc_enable_db", database=database)
        if table is not None:
            schema, _, name = table.rpartition(".")
            given = {"source_schema": schema or "dbo", "source_name": name, "role_name": None, **arguments}
            marks = ", ".join(f"@{key} = ?" for key in given)
            self.execute(f"EXEC sys.sp_cdc_enable_table {marks}", *given.values(), database=database)

    def replica(self, name: str = "secondary") -> Replica:
        """The second listener of this name over the same databases, which can be held behind.

        Made, and listening on a separate port, when it is asked for the first time.
        """
        replica = self._replicas.get(name)
        if replica is None:
            replica = self._replicas[name] = Replica(self, name)
        return replica

    # -- capture ------------------------------------------------------------------------------------

    @property
    def capture_mode(self) -> CaptureMode:
        """ "auto": each commit is captured with it; "manual": when ``capture`` is called."""
        return self.cdc.capture_mode

    @capture_mode.setter
    def capture_mode(self, mode: CaptureMode) -> None:
        if mode not in ("auto", "manual"):
            raise ValueError(f"capture_mode is 'auto' or 'manual', not {mode!r}")
        self.cdc.capture_mode = mode

    @property
    def key_updates(self) -> KeyUpdates:
        """How updates of the clustering key are captured: "pair", "images" or "inserts first"."""
        return self.cdc.key_updates

    @key_updates.setter
    def key_updates(self, form: KeyUpdates) -> None:
        if form not in get_args(KeyUpdates):
            raise ValueError(f"key_updates must be one of {get_args(KeyUpdates)}, got {form!r}")
        self.cdc.key_updates = form

    @property
    def commands(self) -> CommandIds:
        """Whether ``__$command_id`` counts each "row" or each "statement" of a commit."""
        return self.cdc.commands

    @commands.setter
    def commands(self, per: CommandIds) -> None:
        if per not in get_args(CommandIds):
            raise ValueError(f"commands must be one of {get_args(CommandIds)}, got {per!r}")
        self.cdc.commands = per

    @property
    def text_casts(self) -> str:
        """What nvarchar gives as varbinary: "utf-16", or "utf-8" as an engine that is no SQL Server."""
        return self.engine.registry.text_casts

    @text_casts.setter
    def text_casts(self, units: str) -> None:
        if units not in ("utf-16", "utf-8"):
            raise ValueError(f"text_casts must be 'utf-16' or 'utf-8', got {units!r}")
        self.engine.registry.text_casts = units
        self.engine.cache.clear()

    def capture(self, *, commits: int | None = None, database: str | None = None) -> int:
        """Capture what is committed and waits, or its oldest ``commits``; returns how many commits."""
        return self.cdc.capture(database or self.database, commits)

    def stop_capture(self) -> None:
        """Stop the capture job: nothing is captured, not even idle entries."""
        self.cdc.running = False

    def start_capture(self) -> None:
        """Start the capture job again; in "auto" mode it catches up at once."""
        self.cdc.running = True
        if self.capture_mode == "auto":
            self.cdc.capture_everywhere()

    def idle(self, *, database: str | None = None) -> str | None:
        """Write an idle entry, as capture does on a quiet database about every five minutes; its LSN."""
        entry = self.cdc.idle(database or self.database)
        return None if entry is None else lsn.text(entry)

    def cleanup(
        self,
        instance: str | None = None,
        *,
        up_to: str | bytes | None = None,
        keep: timedelta | None = None,
        between: Callable[[], object] | None = None,
        database: str | None = None,
    ) -> str | None:
        """Raise the low watermark, then purge what is below it; the new low watermark.

        :param instance: a capture instance, or None for all.
        :param up_to: the new low watermark itself: changes below this LSN go, those at it stay.
        :param keep: instead: keep the changes of the last ``keep``; three days by default.
        :param between: called after the low watermark is raised and before anything is deleted.
        """
        low = self.cdc.cleanup(
            database or self.database,
            instance,
            low_lsn=None if up_to is None else lsn.parse(up_to),
            keep=keep,
            between=between,
        )
        return None if low is None else lsn.text(low)

    def count_reads(self) -> AbstractContextManager[Any]:
        """``with server.count_reads() as reads``: then ``reads.statements``, with rows visited by table."""
        return self.engine.count_reads()
