"""The hook: an Airflow connection of type ``mssql``, and sessions over it."""
