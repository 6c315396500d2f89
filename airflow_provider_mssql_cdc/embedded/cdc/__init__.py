"""Change data capture on top of the engine, built on the engine's documented extension points alone."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.cdc.clock import ServerClock
from airflow_provider_mssql_cdc.embedded.cdc.database import on_ddl
from airflow_provider_mssql_cdc.embedded.cdc.functions import register_functions
from airflow_provider_mssql_cdc.embedded.cdc.procedures import register_procedures
from airflow_provider_mssql_cdc.embedded.cdc.service import ChangeDataCapture
from airflow_provider_mssql_cdc.embedded.engine import Engine

__all__ = ["ChangeDataCapture", "install"]


def install(engine: Engine, clock: ServerClock) -> ChangeDataCapture:
    """Give an engine change data capture: procedures, functions, hooks."""
    cdc = ChangeDataCapture(engine, clock)
    register_procedures(engine, cdc)
    register_functions(engine)
    engine.hooks.ddl.append(
        lambda session, write, kind, table, text: on_ddl(cdc, write, kind=kind, table=table, text=text)
    )
    return cdc
