"""Implementation of ``airflow mssql-cdc``: query, print, and exit with a code for scripts."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_mssql_cdc.errors import MssqlCdcError, PreflightFailed
from airflow_provider_mssql_cdc.hooks.delta_storage import storage_options
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.jobs.abandon_snapshot import abandon as abandon_snapshot
from airflow_provider_mssql_cdc.jobs.source_table import loadable_table
from airflow_provider_mssql_cdc.lake.read_facts import StoredFacts
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.model.capture import CaptureInstance
from airflow_provider_mssql_cdc.model.facts import FactsRow, json_value
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.plan import Attempt
from airflow_provider_mssql_cdc.planning.overview import overviews
from airflow_provider_mssql_cdc.setup_sql import print_script
from airflow_provider_mssql_cdc.source.connection_report import connection_facts
from airflow_provider_mssql_cdc.source.session import SourceSession
from airflow_provider_mssql_cdc.table import MssqlCdcTable

NOTHING_TO_DO, NEEDS_ATTENTION, FAILED = 0, 1, 2

_STATUS_COLUMNS = (
    "source",
    "state",
    "parts_done",
    "parts",
    "snapshot_rows",
    "position",
    "lag_seconds",
    "headroom_hours",
    "consistent",
    "merged_at",
)

_UNUSED = "/not-used-by-a-check"
"""Placeholder path: preflight needs a complete table, but a check never opens its Delta tables."""


def _command(answer: Callable[[Namespace], int]) -> Callable[[Namespace], None]:
    """Run a command and exit the process: 0, 1, or 2 with the error on standard error."""

    @wraps(answer)
    def run(args: Namespace) -> None:
        try:
            code = answer(args)
        except (MssqlCdcError, AirflowNotFoundException, ValueError) as exc:
            sys.stderr.write(f"{exc}\n")
            code = FAILED
        sys.exit(code)

    return run


@_command
def status(args: Namespace) -> int:
    """Print one line per table that writes into a facts table, worst first."""
    facts, now = _stored_facts(args), datetime.now(UTC)
    found = overviews(facts.newest(), facts.waves_landed())
    _print(
        args,
        [table.to_json(now) for table in found],
        columns=_STATUS_COLUMNS,
    )
    return NEEDS_ATTENTION if any(table.is_in_trouble for table in found) else NOTHING_TO_DO


@_command
def tables(args: Namespace) -> int:
    """Print the capture instances of a database, and tracked tables whose instances are hidden."""
    with MssqlCdcHook(args.conn_id).session() as session:
        found = connection_facts(session)
    rows = [
        {
            "schema": rights.instance.source_schema,
            "table": rights.instance.source_table,
            "capture_instance": rights.instance.name,
            "may_read_changes": rights.may_read_changes,
            "in_gating_role": rights.in_gating_role,
        }
        for rights in sorted(found.instances, key=lambda rights: rights.instance.name)
    ]
    hidden = [{"schema": schema, "table": name, "capture_instance": None} for schema, name in found.hidden]
    _print(args, [*rows, *hidden], columns=("schema", "table", "capture_instance", "may_read_changes"))
    return (
        NEEDS_ATTENTION if hidden or any(row["may_read_changes"] is False for row in rows) else NOTHING_TO_DO
    )


@_command
def check(args: Namespace) -> int:
    """Print the preflight result of each capture instance."""
    with MssqlCdcHook(args.conn_id).session() as session:
        names = args.capture_instance or [i.name for i in _instances(session)]
        rows = [{"capture_instance": name, **_preflight(session, args.conn_id, name)} for name in names]
    _print(args, rows, columns=("capture_instance", "key", "problems"))
    return NEEDS_ATTENTION if any(row["problems"] for row in rows) else NOTHING_TO_DO


@_command
def setup_sql(args: Namespace) -> int:
    """Print the T-SQL that prepares tables for a load."""
    return print_script(args)


@_command
def facts(args: Namespace) -> int:
    """Print the newest facts rows."""
    if args.limit < 1:
        raise ValueError(f"--limit must be an integer >= 1, got {args.limit}")
    rows = _stored_facts(args).recent(limit=args.limit, event=args.event, source=args.source)
    _print(
        args,
        [_as_json(row) for row in rows],
        columns=("written_at", "source", "event", "rows", "end_lsn", "end_commit_ts", "run_id"),
    )
    return NOTHING_TO_DO


@_command
def abandon(args: Namespace) -> int:
    """Abandon the open chunked snapshot of a bronze table; exit code 1 when there is none."""
    table = MssqlCdcTable(
        mssql_conn_id="none",
        capture_instance="none",
        bronze=_path(args.bronze),
        facts=_UNUSED,
        storage_options=_storage(args),
    )
    attempt = Attempt(
        dag_id="airflow mssql-cdc", run_id=f"cli {datetime.now(UTC):%Y-%m-%d %H:%M:%S}", task_id="abandon"
    )
    done = abandon_snapshot(table, attempt=attempt, snapshot=Lsn.parse(args.snapshot), rows=args.delete_rows)
    _print(args, [done.to_json()], columns=("snapshot", "files", "rows"))
    return NEEDS_ATTENTION if done.snapshot is None else NOTHING_TO_DO


def _instances(session: SourceSession) -> list[CaptureInstance]:
    found = [rights.instance for rights in connection_facts(session).instances]
    return sorted(found, key=lambda instance: (instance.source_schema, instance.source_table, instance.name))


def _preflight(session: SourceSession, conn_id: str, name: str) -> dict[str, Any]:
    table = MssqlCdcTable(
        mssql_conn_id=conn_id, capture_instance=name, bronze=_UNUSED, facts=f"{_UNUSED}-facts"
    )
    try:
        source = loadable_table(session, table)
    except PreflightFailed as exc:
        return {"key": None, "problems": list(exc.problems), "notes": []}
    except MssqlCdcError as exc:
        return {"key": None, "problems": [str(exc)], "notes": []}
    key = ", ".join(column.name for column in source.keys.key or ())
    return {"key": key, "problems": [], "notes": list(source.notes)}


def _stored_facts(args: Namespace) -> StoredFacts:
    return StoredFacts(TableLocation(_path(args.facts), _storage(args)))


def _path(given: str) -> str:
    """Resolve a relative path, which is meaningful on a command line, unlike in a DAG on many workers."""
    return given if "://" in given else str(Path(given).absolute())


def _storage(args: Namespace) -> Mapping[str, str] | None:
    return storage_options(args.delta_conn_id) if args.delta_conn_id else None


def _as_json(row: FactsRow) -> dict[str, Any]:
    return {field.name: json_value(getattr(row, field.name)) for field in fields(row)}


def _print(args: Namespace, rows: Sequence[Mapping[str, Any]], *, columns: Sequence[str]) -> None:
    """Print one JSON document, or a table of some of the columns with each value on one line."""
    if args.json:
        sys.stdout.write(json.dumps(list(rows), ensure_ascii=False, default=str, indent=2) + "\n")
        return
    cells = [[_cell(row.get(name)) for name in columns] for row in rows]
    widths = [max([len(name), *(len(line[i]) for line in cells)]) for i, name in enumerate(columns)]
    for line in ([*columns], *cells):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        sys.stdout.write("  ".join(padded).rstrip() + "\n")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return "; ".join(map(_cell, value)) or "none"
    if isinstance(value, float):
        return f"{value:.1f}"
    return "".join(char if char.isprintable() else "?" for char in str(value))
