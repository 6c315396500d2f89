"""Load a table that takes longer to read than CDC keeps changes, in as many runs as it takes.

Every night the waves that bronze does not hold yet are read, for four hours at most; a run that is not
through ends well, its ``complete`` skipped, and the next night goes on. When the table is there, runs find
that and read nothing; pause the DAG then. ``changes_hourly`` reads the changes in the meantime: let it run
from the first night on.

The pool ``erp`` limits what is read from the server at once, by all DAGs together:
``airflow pools set erp 4 "reads from the ERP database"``.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables go.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")

with DAG(
    dag_id="bootstrap_chunked",
    schedule="0 20 * * *",
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    params={"resnapshot": Param(False, type="boolean", description="Open another snapshot, once")},
    tags=["mssql_cdc"],
    doc_md=__doc__,
) as dag:
    mssql_cdc_bootstrap(
        group_id="flights",
        mode="chunked",
        table=MssqlCdcTable(
            mssql_conn_id="erp",
            capture_instance="dbo_flights",
            bronze=f"{LAKE}/bronze/flights",
            facts=f"{LAKE}/ops/facts",
        ),
        chunk_rows=20_000,
        max_seconds=4 * 3600,
        min_headroom_hours=12,
        resnapshot="{{ params.resnapshot }}",
        pool="erp",
        retries=5,
        retry_delay=timedelta(minutes=2),
    )
