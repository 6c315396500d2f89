"""Find everything that prevents a load, all of it before the first read, each with its remedy.

A problem stops the load. A note is logged: a risk, or a fact that the login's rights do not show.
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
    """Hold the findings: ``problems`` stop the load, ``notes`` are logged."""

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
    """Check the facts of one table.

    :param columns: of the source table, for notes on collations.
    :param isolation: ``"snapshot"`` when the reads use it.
    :param allow: names that the user accepts, for instance :data:`ROW_LEVEL_SECURITY`.
    :param stale_seconds: age of the last capture, in seconds, above which a note is made.
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
    """Say why no instance is visible: CDC is off, or the name is wrong, or the login lacks rights."""
    asked, meant = facts.capture_instance, _did_you_mean(facts)
    if facts.table is not None and facts.tracked:
        return (
            f"capture instance {asked} must be visible to user {facts.login}, and CDC tracks "
            f"{facts.table.label}: {_grant(facts)}; {grant_changes(asked, facts.login)}; "
            f"{_gating_role(facts)}{meant}"
        )
    if facts.table is not None and facts.tracked is False:
        return (
            f"change data capture is off for table {facts.table.label}: EXEC sys.sp_cdc_enable_table "
            f"@source_schema = N'{_literal(facts.table.schema)}', "
            f"@source_name = N'{_literal(facts.table.name)}', @role_name = NULL{meant}"
        )
    missing = f"user {facts.login} sees no capture instance {asked} in database {facts.database}"
    if facts.other_instances:
        visible = ", ".join(sorted(facts.other_instances))
        return f"{missing}; visible ones: {visible}{meant or '.'} {_all_grants(facts)}"
    return f"{missing}, nor any other. {_all_grants(facts)}"


def _did_you_mean(facts: SourceFacts) -> str:
    """Suggest the visible names that are similar, ignoring case."""
    names = {name.casefold(): name for name in facts.other_instances}
    close = difflib.get_close_matches(facts.capture_instance.casefold(), names)
    return f". Did you mean {' or '.join(names[name] for name in close)}?" if close else ""


def _all_grants(facts: SourceFacts) -> str:
    """Return all grants that an instance may need to become visible."""
    # SQL Server hides what a login may not read (Microsoft Learn, "Metadata visibility configuration"): a
    # missing instance and a forbidden one look the same.
    schema, table = facts.likely_table or ("<schema>", "<table>")
    return (
        f"If it exists, the login lacks the rights to see it; a db_owner must run: "
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
            f"the table of capture instance {instance.name} must be visible to user {facts.login}: "
            f"{_grant(facts)}"
        )
    if instance.drop_pending:
        yield (
            f"capture instance {instance.name} is pending drop: its table was dropped or is being disabled; "
            "enable CDC on the table again, or name its other capture instance"
        )
    if facts.row_level_security and ROW_LEVEL_SECURITY not in allow:
        yield (
            f"table {_label(facts)} has row-level security, so this login may see only some rows while CDC "
            "records all of them: exempt the login in the security policy, or accept that with "
            f'allow=("{ROW_LEVEL_SECURITY}",)'
        )
    if facts.memory_optimized:
        yield f"table {_label(facts)} must not be memory-optimized, which CDC does not support"


def _isolation_problems(facts: SourceFacts, isolation: str | None) -> Iterator[str]:
    if isolation == "snapshot" and facts.snapshot_allowed is False:
        yield (
            f"database {facts.database} must allow isolation snapshot (error 3952): ALTER DATABASE "
            f"{_shown(facts.database)} SET ALLOW_SNAPSHOT_ISOLATION ON, or remove isolation to read under "
            "READ COMMITTED"
        )


def _notes(facts: SourceFacts, stale_seconds: float) -> Iterator[str]:
    age = facts.last_capture_age_seconds
    if age is None:
        yield "it is unknown whether the capture job runs: cdc.lsn_time_mapping is empty or not readable"
    elif age > stale_seconds:
        yield (
            f"capture last wrote {age / 60:.0f} minutes ago: unless the database is paused, check that the "
            "capture job runs; after a failover it must be created on the new primary"
        )
    if facts.row_level_security is None:
        yield "it is unknown whether the table has row-level security: the login has no VIEW DEFINITION"
    if facts.partitioned:
        yield (
            "the table is partitioned: switching a partition in or out makes no change rows unless CDC was "
            "enabled with @allow_partition_switch = 0"
        )


def _collation_notes(facts: SourceFacts, columns: Collection[Column]) -> Iterator[str]:
    """Note columns that CDC may garble: char and varchar in another collation than the database."""
    # "Collation differences" in Microsoft Learn, "Known limitations, issues, and errors with CDC".
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
