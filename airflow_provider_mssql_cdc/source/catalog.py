"""Describe a source table from the catalog and the CDC procedures, as this login sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from airflow_provider_mssql_cdc.errors import (
    ConfigurationError,
    MssqlCdcError,
    PermissionDenied,
    PreflightFailed,
    SourceObjectMissing,
    StatementFailed,
)
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.lsn import LAST_LSN
from airflow_provider_mssql_cdc.model.source_table import (
    Column,
    SourceFacts,
    SourceTable,
    SqlType,
    UniqueIndex,
)
from airflow_provider_mssql_cdc.planning.preflight import preflight
from airflow_provider_mssql_cdc.source.gathered import (
    ASKING,
    Gathered,
    SourceName,
    TableAnswers,
    gathered,
)
from airflow_provider_mssql_cdc.source.instances import choose_instance, instance_of, visible_instances
from airflow_provider_mssql_cdc.source.session import Answer, SourceSession
from airflow_provider_mssql_cdc.tsql import catalog, cdc

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class SourceDescription:
    """What is known about a table before it is loaded.

    :param columns: the table's columns in order; ``captured`` marks those that CDC records.
    :param recorded: (name, column id) of the columns that the instance records, including dropped ones.
    :param problems: reasons not to load, one sentence each; the caller adds its own and raises all together.
    :param notes: information for the log.
    """

    table: SourceTable
    instance: CaptureInstance
    columns: tuple[Column, ...]
    unique_indexes: tuple[UniqueIndex, ...]
    facts: SourceFacts
    recorded: frozenset[tuple[str, int]] = frozenset()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def describe(
    session: SourceSession,
    *,
    capture_instance: str,
    source: tuple[str, str] | None = None,
    allow: Collection[str] = (),
) -> SourceDescription:
    """Find the capture instance and describe its table, including the result of preflight.

    :param source: (schema, table); needed only when the instance is not visible and its name is ambiguous.
    :param allow: names of risks that the user accepts.
    :raises PreflightFailed: CDC is off on the database or on the table.
    :raises PermissionDenied: the table is tracked and the instance is not visible; names the GRANTs.
    :raises SourceObjectMissing: there is no such instance, or its table is gone.
    """
    name = SourceName(capture_instance, source)
    told = gathered(session, name)
    database = told.database.row
    instance: CaptureInstance | None = None
    others: tuple[str, ...] = ()
    if database["is_cdc_enabled"]:
        found = _listed(session, told)
        instance = choose_instance(found, capture_instance)
        others = tuple(other.name for other in found if other is not instance)
    if instance is None:
        raise _no_instance(session, _facts_without_instance(session, database, name, others=others))
    _check_source(instance, source)
    answers = _answers_of(session, instance, told)
    if not answers.table.rows:
        raise SourceObjectMissing(
            f"{session.settings.label}: the table {instance.source_schema}.{instance.source_table} of "
            f"capture instance {instance.name} is not visible to user {database['user_name']}: GRANT SELECT "
            "on it"
        )
    table_row = answers.table.rows[0]
    table = _table_of(table_row, database)
    recorded = frozenset((row["column_name"], int(row["column_id"])) for row in answers.recorded.rows)
    may_unmask = _said(told.unmask, "may_unmask")
    columns = tuple(_columns(answers.columns.rows, recorded, may_unmask=may_unmask, utf16=session.utf16))
    facts = _facts(session, told, answers, instance=instance, columns=columns, others=others)
    judged = preflight(facts, columns=columns, isolation=session.isolation, allow=allow)
    return SourceDescription(
        table=table,
        instance=instance,
        columns=columns,
        unique_indexes=_unique_indexes(answers.indexes.rows),
        facts=facts,
        recorded=recorded,
        problems=judged.problems,
        notes=judged.notes,
    )


def _listed(session: SourceSession, told: Gathered) -> tuple[CaptureInstance, ...]:
    """Return the instances of the table that the name suggests; all instances if it is not among them.

    A database may have thousands of instances, and the procedure looks up each of them.
    """
    if told.listed.error is None:
        found = tuple(instance_of(row) for row in told.listed.rows)
        if told.name.likely is None or told.name.capture_instance in {one.name for one in found}:
            return found
    return visible_instances(session)


def _answers_of(session: SourceSession, instance: CaptureInstance, told: Gathered) -> TableAnswers:
    """Return the answers by likely name if they are about the instance's table; else query by object id."""
    about = told.about
    if about is not None and instance.name == told.name.capture_instance and about.are_of(instance):
        return about
    return TableAnswers.of_instance(session, instance)


def described_columns(session: SourceSession, object_id: int) -> tuple[Column, ...]:
    """Return the columns of any visible table, such as a change table; only name, id and type are set."""
    rows = session.rows(catalog.table_columns(object_id), doing=ASKING)
    return tuple(
        Column(
            row["column_name"],
            int(row["column_id"]),
            _sql_type(row),
            nullable=bool(row["is_nullable"]),
            utf16=session.utf16,
        )
        for row in rows
    )


def _check_source(instance: CaptureInstance, source: tuple[str, str] | None) -> None:
    found = (instance.source_schema, instance.source_table)
    if source is not None and tuple(map(str.casefold, source)) != tuple(map(str.casefold, found)):
        raise ConfigurationError(
            f"capture instance {instance.name} belongs to {found[0]}.{found[1]}, not to "
            f"{source[0]}.{source[1]}: correct either, or leave source out"
        )


def _no_instance(session: SourceSession, facts: SourceFacts) -> MssqlCdcError:
    """Return the error for a missing instance: one of four causes, distinguished by what is visible."""
    sentences = preflight(facts, isolation=session.isolation).problems
    where = f"{facts.capture_instance} (connection {session.settings.conn_id})"
    if facts.cdc_enabled and facts.tracked:
        return PermissionDenied(f"{where}: {'; '.join(sentences)}")
    if facts.cdc_enabled and facts.table is None:
        return SourceObjectMissing(f"{where}: {'; '.join(sentences)}")
    return PreflightFailed(where, sentences)


def _facts_without_instance(
    session: SourceSession, database: Row, name: SourceName, *, others: tuple[str, ...]
) -> SourceFacts:
    row = next(filter(None, (_named(session, pair) for pair in name.pairs())), None)
    return SourceFacts(
        capture_instance=name.capture_instance,
        login=database["user_name"],
        database=database["database_name"],
        cdc_enabled=bool(database["is_cdc_enabled"]),
        table=None if row is None else _table_of(row, database),
        likely_table=name.likely,
        tracked=None if row is None else bool(row["is_tracked_by_cdc"]),
        other_instances=others,
    )


def _named(session: SourceSession, pair: tuple[str, str]) -> Row | None:
    return next(iter(session.rows(catalog.table_by_name(*pair), doing=ASKING)), None)


def _facts(
    session: SourceSession,
    told: Gathered,
    answers: TableAnswers,
    *,
    instance: CaptureInstance,
    columns: Sequence[Column],
    others: tuple[str, ...],
) -> SourceFacts:
    database, table_row = told.database.row, answers.table.rows[0]
    table = _table_of(table_row, database)
    captured = {column.name for column in columns if column.captured}
    permissions = answers.permissions.rows
    if (table.schema, table.name) != (instance.source_schema, instance.source_table):
        asked = catalog.column_permissions(table.schema, table.name, table.object_id)
        permissions = session.rows(asked, doing=ASKING)
    denied = [row["column_name"] for row in permissions if row["may_select"] == 0]
    return SourceFacts(
        capture_instance=instance.name,
        login=database["user_name"],
        database=table.database,
        cdc_enabled=True,
        table=table,
        tracked=bool(table_row["is_tracked_by_cdc"]),
        instance=instance,
        other_instances=others,
        select_denied=tuple(name for name in denied if name in captured),
        may_read_changes=may_read_changes(session, instance, told=answers.changes),
        in_gating_role=in_role(session, instance.role_name),
        row_level_security=_row_level_security(answers.policies.optional),
        may_unmask=_said(told.unmask, "may_unmask"),
        last_capture_age_seconds=told.capture_age_seconds,
        snapshot_allowed=database["snapshot_isolation_state"] == 1,
        read_committed_snapshot=bool(database["is_read_committed_snapshot_on"]),
        memory_optimized=bool(table_row["is_memory_optimized"]),
        partitioned=_said(answers.schemes, "scheme_count"),
        database_collation=database["collation_name"],
        code_pages=_code_pages(session, columns, database["collation_name"]),
    )


def _code_pages(
    session: SourceSession, columns: Sequence[Column], database_collation: str | None
) -> dict[str, int | None]:
    """Return code pages; queried only when a captured char or varchar column has a non-default collation."""
    others = {
        column.sql_type.collation
        for column in columns
        if column.captured and column.sql_type.name in {"char", "varchar"} and column.sql_type.collation
    } - {database_collation}
    if not others or database_collation is None:
        return {}
    asked = sorted({*filter(None, others), database_collation})
    answers = session.answers([catalog.code_page(collation) for collation in asked], doing=ASKING)
    rows = {collation: answer.optional for collation, answer in zip(asked, answers, strict=True)}
    return {
        collation: None if row is None or row["code_page"] is None else int(row["code_page"])
        for collation, row in rows.items()
    }


def may_read_changes(
    session: SourceSession, instance: CaptureInstance, *, told: Answer | None = None
) -> bool | None:
    """Return whether this login may read the change table; where HAS_PERMS_BY_NAME gives NULL, try it.

    :param told: the answer to :func:`~..tsql.catalog.may_select`, if it was queried already.
    """
    if told is None:
        (told,) = session.answers([catalog.may_select(cdc.change_table(instance.name))], doing=ASKING)
    if (may_select := _said(told, "may_select")) is not None:
        return may_select
    try:
        # HAS_PERMS_BY_NAME returns NULL when it fails (Microsoft Learn), as for an object that metadata
        # visibility hides. Above the last LSN there are no rows: the query only tests the permission.
        session.rows(cdc.any_change(instance.name, after=LAST_LSN), doing=ASKING)
    except PermissionDenied:
        return False
    except (SourceObjectMissing, StatementFailed):
        return None
    return True


def in_role(session: SourceSession, role: str | None) -> bool | None:
    """Return whether this user is in the gating role; None without a role. Queried once per session."""
    if role is None:
        return None
    key = ("role", role)
    if key not in session.remembered:
        row = session.row(catalog.role_membership(role), doing=ASKING)
        session.remembered[key] = 1 in (row["is_member"], row["is_owner"])
    return bool(session.remembered[key])


def _row_level_security(row: Row | None) -> bool | None:
    """Return whether a security policy filters the table; None when this login could not see one."""
    if row is None or (not row["policy_count"] and not row["may_see"]):
        return None
    return bool(row["policy_count"])


def _columns(
    rows: Sequence[Row], captured: Collection[tuple[str, int]], *, may_unmask: bool | None, utf16: bool
) -> Iterator[Column]:
    """Return the table's columns; CDC keeps recording the old id of a column dropped and added again."""
    for row in rows:
        yield Column(
            name=row["column_name"],
            column_id=int(row["column_id"]),
            sql_type=_sql_type(row),
            nullable=bool(row["is_nullable"]),
            computed=bool(row["is_computed"]),
            masked=bool(row["is_masked"]) and not may_unmask,
            encrypted=row["encryption_type"] is not None,
            column_set=bool(row["is_column_set"]),
            captured=(row["column_name"], int(row["column_id"])) in captured,
            utf16=utf16,
        )


def _sql_type(row: Row) -> SqlType:
    return SqlType.from_catalog(
        row["type_name"],
        int(row["max_length"]),
        precision=int(row["precision"]),
        scale=int(row["scale"]),
        collation=row["collation_name"],
    )


def _unique_indexes(key_columns: Sequence[Row]) -> tuple[UniqueIndex, ...]:
    indexes: dict[int, list[Row]] = {}
    for row in key_columns:
        indexes.setdefault(int(row["index_id"]), []).append(row)
    return tuple(
        UniqueIndex(
            name=rows[0]["index_name"],
            columns=tuple(row["column_name"] for row in rows),
            primary=bool(rows[0]["is_primary_key"]),
            filtered=bool(rows[0]["has_filter"]),
            disabled=bool(rows[0]["is_disabled"]),
            clustered=int(rows[0]["index_id"]) == 1,
        )
        for rows in indexes.values()
    )


def _table_of(row: Row, database: Row) -> SourceTable:
    return SourceTable(
        database["database_name"], row["schema_name"], row["table_name"], int(row["object_id"])
    )


def _said(answer: Answer, column: str) -> bool | None:
    """Return a yes/no answer; None when the login's permissions or the server's version do not allow it."""
    row = answer.optional
    return None if row is None or row[column] is None else bool(row[column])
