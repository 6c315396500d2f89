"""The hook: an Airflow connection of type ``mssql_cdc``, and sessions over it."""
