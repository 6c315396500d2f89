"""Ask the catalog and the CDC procedures about tables: one round trip for many of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.source.session import Answer, SourceSession
from airflow_provider_mssql_cdc.source.watermarks import (
    asks_zone,
    keep_zone,
    newest_capture,
    newest_of,
    zone_of,
)
from airflow_provider_mssql_cdc.tsql import catalog, cdc
from airflow_provider_mssql_cdc.tsql.catalog import TableRef
from airflow_provider_mssql_cdc.tsql.statement import Statement

ASKING = "reading the catalog"

TABLES_AT_ONCE = 50
"""Tables per batch: each needs about a dozen parameters, and a request takes 2,100 at most (Microsoft
Learn, "Maximum capacity specifications for SQL Server")."""

AHEAD_SECONDS = 60.0
"""Lifetime of prefetched answers; after it a table is queried again on its own."""


@dataclass(frozen=True, slots=True)
class SourceName:
    """Name a source as the user does: a capture instance and, when that is ambiguous, (schema, table)."""

    capture_instance: str
    source: tuple[str, str] | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield the table that the user names, else the candidates of ``<schema>_<table>``."""
        if self.source is not None:
            yield self.source
            return
        parts = self.capture_instance.split("_")
        for cut in range(1, len(parts)):
            schema, name = "_".join(parts[:cut]), "_".join(parts[cut:])
            if schema and name:
                yield schema, name

    @property
    def likely(self) -> tuple[str, str] | None:
        """Return the first of :meth:`pairs`."""
        return next(self.pairs(), None)


@dataclass(frozen=True, slots=True)
class TableAnswers:
    """Hold the answers about one table, asked by its name or its object id."""

    table: Answer
    recorded: Answer
    columns: Answer
    indexes: Answer
    permissions: Answer
    changes: Answer
    policies: Answer
    schemes: Answer

    @staticmethod
    def questions(capture_instance: str, pair: tuple[str, str], table: TableRef) -> list[Statement]:
        """Return the questions, in the order of the fields.

        :param pair: (schema, table) as the server spells them, or as the user does.
        """
        return [
            catalog.table_of(table),
            cdc.captured_columns(capture_instance),
            catalog.table_columns(table),
            catalog.unique_indexes(table),
            catalog.column_permissions(*pair, object_id=table if isinstance(table, int) else None),
            catalog.may_select(cdc.change_table(capture_instance)),
            catalog.row_level_security(table),
            catalog.partitioning(table),
        ]

    @classmethod
    def of_instance(cls, session: SourceSession, instance: CaptureInstance) -> TableAnswers:
        """Query by the instance's object id; one round trip."""
        pair = instance.source_schema, instance.source_table
        asked = cls.questions(instance.name, pair, instance.source_object_id)
        return cls(*session.answers(asked, doing=ASKING))

    def are_of(self, instance: CaptureInstance) -> bool:
        """Return whether answers by name describe the instance's table; the table may have been renamed."""
        found = (self.table, self.columns, self.indexes)
        if not self.table.found or any(answer.error is not None for answer in found):
            return False
        rows = (row for answer in found for row in answer.found)
        return all(int(row["object_id"]) == instance.source_object_id for row in rows)


@dataclass(frozen=True, slots=True)
class Gathered:
    """Hold the answers about one source, and about its database.

    :param listed: capture instances of the likely table; all of the database if none is likely.
    :param about: catalog answers about the likely table; None if none is likely.
    :param capture_age_seconds: age of the newest entry that capture wrote; None when unknown.
    """

    name: SourceName
    database: Answer
    unmask: Answer
    capture_age_seconds: float | None
    listed: Answer
    about: TableAnswers | None


def gather(session: SourceSession, names: Sequence[SourceName]) -> list[Gathered]:
    """Query all of them, in one round trip per :data:`TABLES_AT_ONCE`; one more in a new session.

    Nothing here is a watermark, so the order within the batch does not matter. The server resolves names
    while the batch runs; :meth:`TableAnswers.are_of` detects a table renamed in between.
    """
    parts = (names[at : at + TABLES_AT_ONCE] for at in range(0, len(names), TABLES_AT_ONCE))
    return [found for part in parts for found in _gathered(session, part)]


def _gathered(session: SourceSession, names: Sequence[SourceName]) -> Iterator[Gathered]:
    new = asks_zone(session)
    common = cdc.server_zone() if new else cdc.newest_mapping(zone_of(session))
    asked = [_questions(name) for name in names]
    statements = [catalog.database_facts(), catalog.may_unmask(), common, *chain(*asked)]
    answers = iter(session.answers(statements, doing=ASKING))
    database, unmask, said = islice(answers, 3)
    if new:
        keep_zone(session, said)
    age = newest_capture(session)[1] if new else newest_of(session, said)[1]
    for name, questions in zip(names, asked, strict=True):
        listed, *about = islice(answers, len(questions))
        yield Gathered(name, database, unmask, age, listed, TableAnswers(*about) if about else None)


def _questions(name: SourceName) -> list[Statement]:
    pair = name.likely
    listed = cdc.instances(pair)
    if pair is None:
        return [listed]
    try:
        return [listed, *TableAnswers.questions(name.capture_instance, pair, catalog.quoted(*pair))]
    except ValueError:  # what the user wrote can be no name of an object
        return [listed]


def gather_ahead(session: SourceSession, names: Sequence[SourceName]) -> None:
    """Prefetch answers for many tables; :func:`~.catalog.describe` on this session then sends no query.

    Each answer is used once, within :data:`AHEAD_SECONDS`: a table is described before its S is recorded or
    its position is read, and every later guard queries again.
    """
    now = time.monotonic()
    for found in gather(session, names):
        session.remembered[found.name] = (now, found)


def gathered(session: SourceSession, name: SourceName) -> Gathered:
    """Return prefetched answers, else query now."""
    match session.remembered.pop(name, None):
        case (float(asked), Gathered() as found) if time.monotonic() - asked < AHEAD_SECONDS:
            return found
    return gather(session, [name])[0]
