"""Stored procedures that the engine itself has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_mssql_cdc.embedded.engine.parser import tokens
from airflow_provider_mssql_cdc.embedded.engine.run.results import result_set
from airflow_provider_mssql_cdc.embedded.engine.schema import permissions
from airflow_provider_mssql_cdc.embedded.engine.schema.views import count_rows
from airflow_provider_mssql_cdc.embedded.engine.values import types
from airflow_provider_mssql_cdc.embedded.seam import Parameter, ResultSet, SqlError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_mssql_cdc.embedded.engine.run.registry import Registry
    from airflow_provider_mssql_cdc.embedded.engine.run.session import Session


def _space_used(session: Session, arguments: dict[str, Parameter]) -> Iterator[ResultSet]:
    """``sp_spaceused @objname``: sizes are made up, ``rows`` is right. Error 15009."""
    given = arguments.get("objname")
    text = "" if given is None or given.value is None else str(given.value)
    catalog = session.catalog()
    table = catalog.resolve(tokens.split(text))
    if table is None or not permissions.visible(session, catalog, table):
        raise SqlError(
            15009,
            f"The object '{text}' does not exist in database '{session.database}' or is invalid for "
            "this operation.",
        )
    rows = count_rows(session, table)
    size = types.varchar(18)
    columns = [
        ("name", types.nvarchar(128)),
        ("rows", types.varchar(20)),
        ("reserved", size),
        ("data", size),
        ("index_size", size),
        ("unused", size),
    ]
    yield result_set(
        columns,
        [(table.name, str(rows).ljust(20), f"{rows // 10 + 8} KB", f"{rows // 10} KB", "8 KB", "0 KB")],
    )


def register(registry: Registry) -> None:
    registry.add_procedure("sys.sp_spaceused", _space_used, ("objname", "updateusage"))
