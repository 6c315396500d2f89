"""Load a handful of tables once each: one task group per table.

The tables are those of ``make demo``: New York's flights of 2013. Trigger it as it is; a table that
bronze holds already is left alone. Trigger it with ``resnapshot`` to load all of them again.

Each completion is an event of the bronze table's asset, with the LSN and the version in its ``extra``: a DAG
that is scheduled on that asset starts when the table is there.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables go.
"""

from __future__ import annotations

import os

from airflow.sdk import DAG, AssetAlias, Param

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")
TABLES = ("flights", "airlines", "airports")

with DAG(
    dag_id="bootstrap_tables",
    schedule=None,
    catchup=False,
    params={"resnapshot": Param(False, type="boolean", description="Load again what bronze holds already")},
    tags=["mssql_cdc"],
    doc_md=__doc__,
):
    for name in TABLES:
        mssql_cdc_bootstrap(
            group_id=name,
            table=MssqlCdcTable(
                mssql_conn_id="erp",
                capture_instance=f"dbo_{name}",
                bronze=f"{LAKE}/bronze/{name}",
                facts=f"{LAKE}/ops/facts",
            ),
            rows_per_range=50_000,
            resnapshot="{{ params.resnapshot }}",
            outlets=[AssetAlias("mssql_cdc_loads")],
        )
