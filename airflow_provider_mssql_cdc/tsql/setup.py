"""What a db_owner runs before the first load: CDC, a login, and the least privileges that it needs.

A script for sqlcmd or SSMS: batches separated by ``GO``, each idempotent. The procedures' arguments are
documented in Microsoft Learn, "sys.sp_cdc_enable_db" and "sys.sp_cdc_enable_table"; contained users of Azure
SQL Database in "CREATE USER".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from airflow_provider_mssql_cdc.model.names import LONGEST_INSTANCE, is_name
from airflow_provider_mssql_cdc.tsql.statement import shown

Target = Literal["server", "managed-instance", "azure-sql-database"]
TARGETS: tuple[Target, ...] = ("server", "managed-instance", "azure-sql-database")

_PASSWORD = "-- Put a password in; it goes into the Airflow connection.\n"
_BEFORE = {
    "server": "-- SQL Server: a member of sysadmin runs this; SQL Server Agent has to run, it captures.",
    "managed-instance": "-- Azure SQL Managed Instance: a member of sysadmin runs this.",
    "azure-sql-database": (
        "-- Azure SQL Database: db_owner runs this, connected to the database itself; CDC needs the vCore "
        "model,\n-- or DTU from S3 on. There is no Agent to look after."
    ),
}


@dataclass(frozen=True, slots=True)
class Setup:
    """A database, its tables to load, and the login that loads them.

    :param tables: (schema, name) each.
    :param login: the login, and the database user of the same name; with a backslash a Windows login.
    :param role: the gating role of the capture instances; None for none.
    :param target: where the database runs.
    :param suffix: appended to the names of the capture instances. If not empty, a table that has an instance
        gets a second one, as after a change of its columns.
    :raises ValueError: an invalid name.
    """

    database: str
    tables: tuple[tuple[str, str], ...]
    login: str
    role: str | None = None
    target: Target = "server"
    suffix: str = ""

    def __post_init__(self) -> None:
        if not self.tables:
            raise ValueError("tables must name at least one table")
        if self.target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(TARGETS)}, got {self.target!r}")
        parts = [part for table in self.tables for part in table]
        for name in (self.database, self.login, *parts, *filter(None, (self.role, self.suffix))):
            # A line break could end a comment, or make a line that is a batch's end.
            if not name.isprintable() or not name:
                raise ValueError(f"a name must be printable and not empty, got {name!r}")
        for schema, table in self.tables:
            if not is_name(instance := self.instance_of(schema, table), longest=LONGEST_INSTANCE):
                raise ValueError(f"a capture instance must be at most 100 characters long, got {instance!r}")
        if self.target == "azure-sql-database" and "\\" in self.login:
            raise ValueError(f"Azure SQL Database has no Windows logins, got {self.login!r}")

    def instance_of(self, schema: str, table: str) -> str:
        """The capture instance's name: SQL Server's default one, and the suffix."""
        return f"{schema}_{table}{self.suffix}"


def setup_script(setup: Setup) -> str:
    """Return the batches as one script, each followed by ``GO``."""
    return "".join(f"{batch}\nGO\n" for batch in setup_batches(setup))


def setup_batches(setup: Setup) -> Iterator[str]:
    """Return the batches: CDC on the database, the login and user, the role, each table with its grants."""
    yield _BEFORE[setup.target]
    if setup.target != "azure-sql-database":
        yield f"USE {shown(setup.database)};"
    yield (
        "IF EXISTS (SELECT 1 FROM sys.databases WHERE name = DB_NAME() AND is_cdc_enabled = 0)\n"
        "    EXEC sys.sp_cdc_enable_db;"
    )
    yield from _login(setup)
    if setup.role is not None:
        yield (
            f"{_no_user(_literal(setup.role))}\n    CREATE ROLE {shown(setup.role)};\n"
            f"ALTER ROLE {shown(setup.role)} ADD MEMBER {shown(setup.login)};"
        )
    for schema, table in setup.tables:
        yield _enable(setup, schema, table)
        yield _grants(setup, schema, table)
    if setup.suffix:
        yield from (_leave_the_older(setup, schema, table) for schema, table in setup.tables)


def _login(setup: Setup) -> Iterator[str]:
    login, name = shown(setup.login), _literal(setup.login)
    if setup.target == "azure-sql-database":
        yield f"{_PASSWORD}{_no_user(name)}\n    CREATE USER {login} WITH PASSWORD = N'<password>';"
        return
    missing = f"IF NOT EXISTS (SELECT 1 FROM sys.server_principals WHERE name = {name})"
    if "\\" in setup.login:
        yield f"{missing}\n    CREATE LOGIN {login} FROM WINDOWS;"
    else:
        yield f"{_PASSWORD}{missing}\n    CREATE LOGIN {login} WITH PASSWORD = N'<password>';"
    yield f"{_no_user(name)}\n    CREATE USER {login} FOR LOGIN {login};"


def _no_user(name: str) -> str:
    return f"IF NOT EXISTS (SELECT 1 FROM sys.database_principals WHERE name = {name})"


def _enable(setup: Setup, schema: str, table: str) -> str:
    """Enable CDC on a table without net changes, which need an index on the change table and are not
    read.
    """
    instance = _literal(setup.instance_of(schema, table))
    role = "NULL" if setup.role is None else _literal(setup.role)
    return (
        # Net changes also require a primary key or a unique index (Microsoft Learn,
        # "sys.sp_cdc_enable_table"), and this package supports tables without either.
        f"IF NOT EXISTS (SELECT 1 FROM cdc.change_tables WHERE capture_instance = {instance})\n"
        "    EXEC sys.sp_cdc_enable_table\n"
        f"        @source_schema = {_literal(schema)}, @source_name = {_literal(table)},\n"
        f"        @capture_instance = {instance}, @role_name = {role}, @supports_net_changes = 0;"
    )


def _grants(setup: Setup, schema: str, table: str) -> str:
    change_table = f"{setup.instance_of(schema, table)}_CT"
    return (
        f"GRANT SELECT ON {shown(schema)}.{shown(table)} TO {shown(setup.login)};\n"
        f"GRANT SELECT ON {shown('cdc')}.{shown(change_table)} TO {shown(setup.login)};"
    )


def _leave_the_older(setup: Setup, schema: str, table: str) -> str:
    return (
        f"-- When changes have been read from {setup.instance_of(schema, table)}, and not before,\n"
        f"-- a db_owner drops the older instance of the table:\n"
        f"-- EXEC sys.sp_cdc_disable_table @source_schema = {_literal(schema)}, "
        f"@source_name = {_literal(table)},\n"
        f"--     @capture_instance = {_literal(f'{schema}_{table}')};"
    )


def _literal(text: str) -> str:
    return "N'" + text.replace("'", "''") + "'"
