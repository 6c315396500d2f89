"""What sp_rename and ALTER SCHEMA … TRANSFER do to a table: another name, the same object id."""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer


def rename(server: EmbeddedSqlServer, table: str, to: str) -> None:
    """Give ``schema.table`` another name, in the same schema or another one."""
    schema, name = to.split(".")
    with server.session() as session, session.write() as write:
        catalog = write.edit_catalog()
        renamed = catalog.require(tuple(table.split(".")))
        del catalog.tables[catalog.fold(renamed.schema), catalog.fold(renamed.name)]
        renamed.schema, renamed.name = schema, name
        catalog.add_table(renamed)
        write.save_catalog(catalog)
