"""Everything that stands in the way of a load, at once, each with what to do about it.

Facts in, sentences out. A problem stops the load; a note is what a person should know, or what could
not be told with the rights at hand.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from airflow_provider_mssql_cdc.model.source_table import Column, SourceFacts
from airflow_provider_mssql_cdc.planning.connection_report import grant_changes, grant_table, join_role
from airflow_provider_mssql_cdc.planning.types import ROW_LEVEL_SECURITY
from airflow_provider_mssql_cdc.tsql.statement import quote_identifier

_STALE_SECONDS = 30 * 60


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was found: ``problems`` stop the load, ``notes`` are logged."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def preflight(
    facts: SourceFacts,
    *,
    columns: Collection[Column] = (),
    isolation: str | None = None,
    allow: Collection[str] = frozenset(),
    stale_seconds: float = _STALE_SECONDS,
) -> Preflight:
    """Judge the facts of one table.

    :param columns: of the source table, for notes on collations.
    :param isolation: ``"snapshot"`` when the reads are to use it.
    :param allow: what the user accepts by name; :data:`ROW_LEVEL_SECURITY` among it.
    :param stale_seconds: age of the last capture from which on a note is made.
    """
    if facts.cdc_enabled is False:
        return Preflight((_cdc_off(facts),))
    if facts.instance is None:
        return Preflight((_no_instance(facts),))
    problems = (
        *_right_problems(facts),
        *_table_problems(facts, allow),
        *_isolation_problems(facts, isolation),
    )
    return Preflight(problems, (*_notes(facts, stale_seconds), *_collation_notes(facts, columns)))


def _cdc_off(facts: SourceFacts) -> str:
    return (
        f"change data capture is off in database {facts.database}: a member of sysadmin runs "
        "EXEC sys.sp_cdc_enable_db there"
    )


def _no_instance(facts: SourceFacts) -> str:
    """The help procedure showed nothing: off, unknown, misspelt, or not visible to this login."""
    asked, meant = facts.capture_instance, _did_you_mean(facts)
    if facts.table is not None and facts.tracked:
        return (
            f"capture instance {asked} is not visible to user {facts.login}, though CDC tracks "
            f"{facts.table.label}: {_grant(facts)}; {grant_changes(asked, facts.login)}; "
            f"{_gating_role(facts)}{meant}"
        )
    if facts.table is not None and facts.tracked is False:
        return (
            f"change data capture is off for table {facts.table.label}: EXEC sys.sp_cdc_enable_table "
            f"@source_schema = N'{_literal(facts.table.schema)}', "
            f"@source_name = N'{_literal(facts.table.name)}', @role_name = NULL{meant}"
        )
    missing = (
        f"there is no capture instance {asked} in database {facts.database} that user {facts.login} sees"
    )
    if facts.other_instances:
        visible = ", ".join(sorted(facts.other_instances))
        return f"{missing}; visible ones: {visible}{meant or '.'} {_all_grants(facts)}"
    return f"{missing}, and no other one. {_all_grants(facts)}"


def _did_you_mean(facts: SourceFacts) -> str:
    """A question about the visible names that are close; case is no difference."""
    names = {name.casefold(): name for name in facts.other_instances}
    close = difflib.get_close_matches(facts.capture_instance.casefold(), names)
    return f". Did you mean {' or '.join(names[name] for name in close)}?" if close else ""


def _all_grants(facts: SourceFacts) -> str:
    """SQL Server hides what a login may not read: without a right, missing and forbidden look alike."""
    schema, table = facts.likely_table or ("<schema>", "<table>")
    return (
        f"If it exists, the login lacks the rights to see it, and a db_owner runs: "
        f"{grant_table(schema, table, facts.login)}; {grant_changes(facts.capture_instance, facts.login)}; "
        f"{_gating_role(facts)}"
    )


def _gating_role(facts: SourceFacts) -> str:
    return (
        f"and if the instance has a gating role, ALTER ROLE <the role> ADD MEMBER {_shown(facts.login)} "
        "(sys.sp_cdc_help_change_data_capture shows the role to db_owner)"
    )


def _right_problems(facts: SourceFacts) -> Iterator[str]:
    instance = facts.instance
    assert instance is not None
    if facts.select_denied:
        names = ", ".join(map(_shown, facts.select_denied))
        yield (f"user {facts.login} may not read column(s) {names} of {_label(facts)}: {_grant(facts)}")
    if facts.may_read_changes is False:
        yield (
            f"user {facts.login} may not read the change table: {grant_changes(instance.name, facts.login)}"
        )
    if facts.in_gating_role is False and instance.role_name:
        yield (
            f"user {facts.login} is not in the gating role of {instance.name}: "
            f"{join_role(instance.role_name, facts.login)}"
        )


def _table_problems(facts: SourceFacts, allow: Collection[str]) -> Iterator[str]:
    instance = facts.instance
    assert instance is not None
    if facts.table is None:
        yield (
            f"the table of capture instance {instance.name} is not visible to user {facts.login}: "
            f"{_grant(facts)}"
        )
    if instance.drop_pending:
        yield (
            f"capture instance {instance.name} is pending drop: its table was dropped or is being disabled; "
            "enable CDC on the table again, or name its other capture instance"
        )
    if facts.row_level_security and ROW_LEVEL_SECURITY not in allow:
        yield (
            f"table {_label(facts)} is under row-level security, so this login may see a part of the rows "
            "while CDC records all of them: exempt the login in the security policy, or allow it by name, "
            f'allow=("{ROW_LEVEL_SECURITY}",)'
        )
    if facts.memory_optimized:
        yield f"table {_label(facts)} is memory-optimized, which CDC does not track: load it another way"


def _isolation_problems(facts: SourceFacts, isolation: str | None) -> Iterator[str]:
    if isolation == "snapshot" and facts.snapshot_allowed is False:
        yield (
            f"isolation is snapshot and database {facts.database} does not allow it (error 3952): "
            f"ALTER DATABASE {_shown(facts.database)} SET ALLOW_SNAPSHOT_ISOLATION ON, or leave isolation "
            "out to read under READ COMMITTED"
        )


def _notes(facts: SourceFacts, stale_seconds: float) -> Iterator[str]:
    age = facts.last_capture_age_seconds
    if age is None:
        yield "whether the capture job runs cannot be told: cdc.lsn_time_mapping is empty or not readable"
    elif age > stale_seconds:
        yield (
            f"capture last wrote {age / 60:.0f} minutes ago: if the database is not paused, look whether the "
            "capture job runs; after a failover it has to be created on the new primary"
        )
    if facts.row_level_security is None:
        yield "whether the table is under row-level security cannot be told without VIEW DEFINITION"
    if facts.partitioned:
        yield (
            "the table is partitioned: switching a partition in or out makes no change rows unless CDC was "
            "enabled with @allow_partition_switch = 0"
        )


def _collation_notes(facts: SourceFacts, columns: Collection[Column]) -> Iterator[str]:
    """CDC keeps char columns in the database's collation and may garble others (varchar, other code page)."""
    other = [
        _shown(column.name)
        for column in columns
        if column.captured
        and column.sql_type.name in {"char", "varchar"}
        and facts.database_collation is not None
        and column.sql_type.collation not in {None, facts.database_collation}
    ]
    if other:
        yield (
            f"column(s) {', '.join(other)} have another collation than the database "
            f"({facts.database_collation}): where code pages differ, change rows may hold other characters "
            "than the table"
        )


def _label(facts: SourceFacts) -> str:
    if facts.table is not None:
        return facts.table.label
    assert facts.instance is not None
    return f"{facts.instance.source_schema}.{facts.instance.source_table}"


def _grant(facts: SourceFacts) -> str:
    if facts.table is not None:
        return grant_table(facts.table.schema, facts.table.name, facts.login)
    assert facts.instance is not None
    return grant_table(facts.instance.source_schema, facts.instance.source_table, facts.login)


def _shown(name: str) -> str:
    return quote_identifier(name).replace("%%", "%")


def _literal(name: str) -> str:
    return name.replace("'", "''")
