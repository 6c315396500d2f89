"""The bare drivers: connect, fetch every row, throw it away."""

from __future__ import annotations

from airflow_provider_mssql_cdc.source.connect import odbc_connection_string, pymssql_arguments
from airflow_provider_mssql_cdc.source.settings import ConnectionSettings

BATCH_ROWS = 65_536


def fetch_by_mssql_python(settings: ConnectionSettings, sql: str) -> int:
    """As Arrow batches, the cheapest way it has; rows."""
    import mssql_python

    connection = mssql_python.connect(odbc_connection_string(settings), autocommit=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return sum(batch.num_rows for batch in cursor.arrow_reader(BATCH_ROWS))
    finally:
        connection.close()


def fetch_by_pymssql(settings: ConnectionSettings, sql: str) -> int:
    """As tuples, the only way it has; rows."""
    import pymssql

    connection = pymssql.connect(**pymssql_arguments(settings))
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return sum(1 for _ in cursor)
    finally:
        connection.close()
