"""``python -m airflow_provider_mssql_cdc.setup_sql``: print the T-SQL that prepares tables for a load.

The script enables change data capture, creates a login and grants it the least rights that a load needs.
The command does not connect: read the script, insert a password, and run it as db_owner (``sqlcmd``, SSMS).
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from typing import Any

from airflow_provider_mssql_cdc.errors import ConfigurationError
from airflow_provider_mssql_cdc.model.tracked import TableName
from airflow_provider_mssql_cdc.tsql.setup import TARGETS, Setup, setup_script


def table_of(text: str) -> tuple[str, str]:
    """Parse ``orders``, ``dbo.orders`` or ``[my schema].[a.b]`` to (schema, name).

    :raises ValueError: the text has another form.
    """
    for candidate in (text, f"dbo.{text}"):
        with contextlib.suppress(ConfigurationError):
            name = TableName.parse(candidate)
            if name.schema and name.table:
                return name.schema, name.table
    raise ValueError(f"a table must be <schema>.<name>, in brackets where needed, got {text!r}")


ARGUMENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "--tables",
        {"nargs": "+", "required": True, "metavar": "SCHEMA.TABLE", "help": "dbo.orders [my schema].[a.b]"},
    ),
    ("--database", {"required": True, "help": "the database that holds them"}),
    ("--login", {"default": "loader", "help": "DOMAIN\\name is a Windows login (default: loader)"}),
    ("--role", {"help": "a gating role for the capture instances (default: none)"}),
    ("--target", {"choices": TARGETS, "default": "server", "help": "default: server"}),
    (
        "--suffix",
        {
            "default": "",
            "help": "ends the capture instances' names; _v2 makes the second instance after a schema change",
        },
    ),
)
"""Arguments and their argparse options, for this command and ``airflow mssql-cdc setup-sql``."""


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_mssql_cdc.setup_sql",
        description="Print the T-SQL that enables CDC on tables, makes a login and grants the least rights.",
    )
    for name, options in ARGUMENTS:
        parser.add_argument(name, **options)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the script; 2 when a name cannot be used."""
    return print_script(parse_arguments(arguments))


def print_script(given: argparse.Namespace) -> int:
    """Print the script of parsed :data:`ARGUMENTS`; 2 when a name cannot be used."""
    try:
        setup = Setup(
            database=given.database,
            tables=tuple(table_of(text) for text in given.tables),
            login=given.login,
            role=given.role,
            target=given.target,
            suffix=given.suffix,
        )
        sys.stdout.write(setup_script(setup))
    except ValueError as exc:
        sys.stderr.write(f"{exc}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
