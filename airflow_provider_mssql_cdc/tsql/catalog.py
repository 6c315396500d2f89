"""Catalog queries: ``sys`` views by object id, with simple joins that every T-SQL engine can run.

Names are passed raw, as parameters, and resolved by the database's collation; results use the catalog's
spelling.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.model.source_table import SourceTable
from airflow_provider_mssql_cdc.tsql.snapshot import table_name
from airflow_provider_mssql_cdc.tsql.statement import Statement, qualified


def database_facts() -> Statement:
    """One row: database_name, login_name, user_name, is_cdc_enabled, snapshot_isolation_state (1 is on),
    is_read_committed_snapshot_on, collation_name.

    By name: on Azure SQL Database ``DB_ID()`` need not be the ``database_id`` of ``sys.databases`` (Microsoft
    Learn, "DB_ID (Transact-SQL)", remarks).
    """
    return Statement(
        "SELECT d.name AS database_name, SUSER_SNAME() AS login_name, USER_NAME() AS user_name,\n"
        "       d.is_cdc_enabled, d.snapshot_isolation_state, d.is_read_committed_snapshot_on,\n"
        "       d.collation_name\n"
        "FROM sys.databases AS d\n"
        "WHERE d.name = DB_NAME()"
    )


def database_access(name: str) -> Statement:
    """Return whether a database exists, as state_desc, and whether this login may enter it, as
    has_access.
    """
    return Statement(
        "SELECT d.state_desc, HAS_DBACCESS(d.name) AS has_access\n"
        "FROM sys.databases AS d\n"
        "WHERE d.name = CAST(%(name)s AS nvarchar(128))",
        {"name": name},
    )


def server_facts() -> Statement:
    """One row: product_version, edition ("SQL Azure" for Azure SQL Database and managed instances)."""
    return Statement(
        "SELECT CAST(SERVERPROPERTY('ProductVersion') AS nvarchar(128)) AS product_version,\n"
        "       CAST(SERVERPROPERTY('Edition') AS nvarchar(128)) AS edition"
    )


_TABLES = (
    "SELECT t.object_id, s.name AS schema_name, t.name AS table_name, t.is_tracked_by_cdc,\n"
    "       t.is_memory_optimized, t.temporal_type\n"
    "FROM sys.tables AS t\n"
    "JOIN sys.schemas AS s ON s.schema_id = t.schema_id\n"
)


def table_by_name(schema: str, name: str) -> Statement:
    """Return the table of that name if this login sees it: object_id, schema_name, table_name,
    is_tracked_by_cdc, is_memory_optimized, temporal_type.
    """
    return Statement(
        f"{_TABLES}WHERE s.name = CAST(%(schema)s AS nvarchar(128))\n"
        "  AND t.name = CAST(%(name)s AS nvarchar(128))",
        {"schema": schema, "name": name},
    )


TableRef = int | str
"""A table by its object id, or by its quoted name, which the server resolves."""


def quoted(schema: str, name: str) -> TableRef:
    """Return the reference to the table of this name.

    :raises ValueError: not a valid table name.
    """
    return _raw(qualified(schema, name))


def _id_of(table: TableRef) -> tuple[str, dict[str, str | int]]:
    """Return T-SQL for its object id, with parameters; NULL if this login sees no such table."""
    if isinstance(table, int):
        return f"{table:d}", {}
    return "OBJECT_ID(%(table)s, N'U')", {"table": table}


def table_of(table: TableRef) -> Statement:
    """Return the table, with the columns of :func:`table_by_name`."""
    number, parameters = _id_of(table)
    return Statement(f"{_TABLES}WHERE t.object_id = {number}", parameters)


def tracked_tables() -> Statement:
    """Return every visible table that CDC tracks, with the columns of :func:`table_by_name`."""
    return Statement(f"{_TABLES}WHERE t.is_tracked_by_cdc = 1\nORDER BY s.name, t.name")


def table_columns(table: TableRef) -> Statement:
    """The table's columns in order.

    object_id, column_name, column_id, type_name (of the base type: an alias type is resolved; the name
    itself for a CLR type), declared_type, max_length, precision, scale, collation_name, is_nullable,
    is_computed, is_masked, is_sparse, is_column_set, encryption_type (NULL when not encrypted).
    """
    number, parameters = _id_of(table)
    return Statement(
        "SELECT c.object_id, c.name AS column_name, c.column_id, COALESCE(b.name, t.name) AS type_name,\n"
        "       t.name AS declared_type, c.max_length, c.[precision], c.scale, c.collation_name,\n"
        "       c.is_nullable, c.is_computed, c.is_masked, c.is_sparse, c.is_column_set, c.encryption_type\n"
        "FROM sys.columns AS c\n"
        "JOIN sys.types AS t ON t.user_type_id = c.user_type_id\n"
        "LEFT JOIN sys.types AS b\n"
        "       ON b.user_type_id = c.system_type_id AND b.system_type_id = c.system_type_id\n"
        f"WHERE c.object_id = {number}\n"
        "ORDER BY c.column_id",
        parameters,
    )


def code_page(collation: str) -> Statement:
    """Return the code page of a collation's char and varchar, as code_page, a string; NULL if unknown."""
    return Statement(
        "SELECT CAST(COLLATIONPROPERTY(%(collation)s, 'CodePage') AS nvarchar(20)) AS code_page",
        {"collation": collation},
    )


def unique_indexes(table: TableRef) -> Statement:
    """Return the key columns of the table's unique indexes, in key order, without INCLUDE columns.

    object_id, index_name, index_id, is_primary_key, has_filter, is_disabled, key_ordinal, column_name.
    """
    number, parameters = _id_of(table)
    return Statement(
        "SELECT i.object_id, i.name AS index_name, i.index_id, i.is_primary_key, i.has_filter,\n"
        "       i.is_disabled, k.key_ordinal, c.name AS column_name\n"
        "FROM sys.indexes AS i\n"
        "JOIN sys.index_columns AS k ON k.object_id = i.object_id AND k.index_id = i.index_id\n"
        "JOIN sys.columns AS c ON c.object_id = k.object_id AND c.column_id = k.column_id\n"
        f"WHERE i.object_id = {number} AND i.is_unique = 1\n"
        "  AND k.is_included_column = 0 AND k.key_ordinal > 0\n"
        "ORDER BY i.index_id, k.key_ordinal",
        parameters,
    )


def row_level_security(table: TableRef) -> Statement:
    """Return the number of enabled security policies on the table, as policy_count, and whether this
    login could see them, as may_see: without VIEW DEFINITION the count is always 0.
    """
    number, parameters = _id_of(table)
    return Statement(
        "SELECT COUNT(*) AS policy_count, HAS_PERMS_BY_NAME(NULL, 'DATABASE', 'VIEW DEFINITION') AS may_see\n"
        "FROM sys.security_predicates AS f\n"
        "JOIN sys.security_policies AS p ON p.object_id = f.object_id\n"
        f"WHERE f.target_object_id = {number} AND p.is_enabled = 1",
        parameters,
    )


def partitioning(table: TableRef) -> Statement:
    """Return the number of partition schemes of the table, as scheme_count."""
    number, parameters = _id_of(table)
    return Statement(
        "SELECT COUNT(*) AS scheme_count\n"
        "FROM sys.indexes AS i\n"
        "JOIN sys.partition_schemes AS s ON s.data_space_id = i.data_space_id\n"
        f"WHERE i.object_id = {number} AND i.index_id IN (0, 1)",
        parameters,
    )


def column_permissions(schema: str, name: str, object_id: int | None = None) -> Statement:
    """Return whether this login may SELECT each column: column_name, may_select (1, 0, or NULL if unknown).

    :param object_id: None to let the server resolve the name.
    """
    table = _raw(qualified(schema, name))
    number, _ = _id_of(table if object_id is None else object_id)
    return Statement(
        "SELECT c.name AS column_name,\n"
        "       HAS_PERMS_BY_NAME(%(table)s, 'OBJECT', 'SELECT', c.name, 'COLUMN') AS may_select\n"
        "FROM sys.columns AS c\n"
        f"WHERE c.object_id = {number}\n"
        "ORDER BY c.column_id",
        {"table": table},
    )


def may_select(quoted_name: str) -> Statement:
    """Return whether this login may SELECT from an object, as may_select.

    :param quoted_name: as built by :func:`~.identifiers.qualified`.
    """
    return Statement(
        "SELECT HAS_PERMS_BY_NAME(%(name)s, 'OBJECT', 'SELECT') AS may_select", {"name": _raw(quoted_name)}
    )


def may_unmask() -> Statement:
    """Return whether this login reads masked columns of the database unmasked, as may_unmask."""
    return Statement("SELECT HAS_PERMS_BY_NAME(NULL, 'DATABASE', 'UNMASK') AS may_unmask")


def role_membership(role: str) -> Statement:
    """Return whether this user is a member of a database role, as is_member (NULL: no such role, or not
    visible), and of db_owner, which bypasses a gating role, as is_owner.
    """
    return Statement(
        "SELECT IS_ROLEMEMBER(CAST(%(role)s AS nvarchar(128))) AS is_member,\n"
        "       IS_ROLEMEMBER('db_owner') AS is_owner",
        {"role": role},
    )


def space_used(table: SourceTable) -> Statement:
    """Return the table's metadata; ``rows`` is a string that may contain blanks. Public; reads no row."""
    return Statement("EXEC sys.sp_spaceused @objname = %(table)s", {"table": _raw(table_name(table))})


def _raw(quoted: str) -> str:
    """Undo the doubling of percent signs in a quoted name, which only statement text needs."""
    return quoted.replace("%%", "%")
