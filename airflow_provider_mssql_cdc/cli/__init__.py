"""``airflow mssql-cdc``: names and arguments of its commands; ``commands`` implements them.

Airflow loads this module for every command line, so it imports only Airflow's own definitions, and those
only when the commands are requested
(https://airflow.apache.org/docs/apache-airflow-providers/core-extensions/cli-commands.html).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.cli.cli_config import ActionCommand, Arg, CLICommand

_NAMED_FACTS = "path or URI of the facts table, as the tables have it in facts="
_NAMED_CONNECTION = "Airflow connection of type mssql_cdc"


def get_commands() -> list[CLICommand]:
    """Return the command group; registered in provider info under ``cli``."""
    from airflow.cli.cli_config import GroupCommand

    return [
        GroupCommand(
            name="mssql-cdc",
            help="SQL Server tables under change data capture, and their Delta tables",
            subcommands=(_status(), _tables(), _check(), _setup_sql(), _facts(), _abandon()),
            epilog="Exit code: 0 nothing to do, 1 something needs attention, 2 the question failed.",
        )
    ]


def _status() -> ActionCommand:
    return _command(
        "status",
        "How every table is doing that writes into one facts table, worst first; 1 when changes were lost",
        _arg("--facts", required=True, metavar="PATH", help=_NAMED_FACTS),
        _delta(),
        _json(),
    )


def _tables() -> ActionCommand:
    return _command(
        "tables",
        "Capture instances of a database, as the connection's login sees them",
        _connection(),
        _json(),
    )


def _check() -> ActionCommand:
    return _command(
        "check",
        "What preflight says of capture instances: types, keys, rights; 1 when there are problems",
        _connection(),
        _arg("--capture-instance", nargs="+", metavar="NAME", help="only these; default: all visible"),
        _json(),
    )


def _setup_sql() -> ActionCommand:
    from airflow_provider_mssql_cdc.setup_sql import ARGUMENTS

    return _command(
        "setup-sql",
        "Print the T-SQL that enables CDC on tables, makes a login and grants the least rights",
        *(_arg(name, **options) for name, options in ARGUMENTS),
    )


def _facts() -> ActionCommand:
    return _command(
        "facts",
        "The newest facts rows, newest first",
        _arg("--facts", required=True, metavar="PATH", help=_NAMED_FACTS),
        _arg("--event", help="only this event, for instance bootstrap, changes, gap"),
        _arg("--source", metavar="TEXT", help="only source tables whose name contains this"),
        _arg("--limit", type=int, default=20, help="rows to show (default: 20)"),
        _delta(),
        _json(),
    )


def _abandon() -> ActionCommand:
    return _command(
        "abandon",
        "Give up the chunked snapshot that is being loaded into a bronze table",
        _arg("--bronze", required=True, metavar="PATH", help="path or URI of the bronze table"),
        _arg("--snapshot", required=True, metavar="LSN", help="the snapshot's LSN, as status names it"),
        _arg("--delete-rows", action="store_true", help="delete the rows of its waves too"),
        _delta(),
        _json(),
    )


def _command(name: str, text: str, *args: Arg) -> ActionCommand:
    from airflow.cli.cli_config import ActionCommand, lazy_load_command

    function = lazy_load_command(f"airflow_provider_mssql_cdc.cli.commands.{name.replace('-', '_')}")
    return ActionCommand(name=name, help=text, func=function, args=args)


def _arg(name: str, **options: object) -> Arg:
    from airflow.cli.cli_config import Arg

    # Airflow leaves its constructor without annotations; the options are argparse's.
    return Arg((name,), **options)  # type: ignore[no-untyped-call]


def _connection() -> Arg:
    return _arg("--conn-id", required=True, metavar="CONN_ID", help=_NAMED_CONNECTION)


def _delta() -> Arg:
    return _arg(
        "--delta-conn-id", metavar="CONN_ID", help="Airflow connection of the object store (aws, wasb, …)"
    )


def _json() -> Arg:
    return _arg("--json", action="store_true", help="print JSON, one document")
