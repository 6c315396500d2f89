"""Every tracked table of a database to its current state in Delta: one DAG loads, another one follows.

``erp_load`` loads the tables that are not loaded yet; a table on which CDC is enabled later is loaded by its
next run. ``erp_follow`` brings the changes of all loaded tables to bronze and silver every quarter of an
hour, and never waits for a load. A table that fails does not stop the others: ``report``, the last task of
each run, lists it with its error and what to do. Trigger ``erp_load`` with a configuration of
``{"resnapshot": ["dbo.flights"]}``
to take new snapshots of some tables.

With small tables one DAG does: leave ``parts`` out. It needs the pool ``erp``, which limits the load on the
server.

Environment: ``MSSQL_CDC_LAKE`` is the folder or URI under which the Delta tables go.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcDatabase, mssql_cdc_pipeline

LAKE = os.environ.get("MSSQL_CDC_LAKE", "/lake")

erp = MssqlCdcDatabase(
    mssql_conn_id="erp",
    include=("dbo.*",),
    exclude=("*.audit_*",),
    bronze=f"{LAKE}/bronze/{{schema}}/{{table}}",
    silver=f"{LAKE}/silver/{{schema}}/{{table}}",
    facts=f"{LAKE}/ops/facts",
    tables={"dbo.flights": {"rows_per_range": 50_000}},
)
given = {"start_date": datetime(2024, 1, 1, tzinfo=UTC), "catchup": False, "tags": ["mssql_cdc"]}

with DAG("erp_load", schedule=timedelta(hours=1), max_active_runs=1, doc_md=__doc__, **given):
    mssql_cdc_pipeline(group_id="erp", database=erp, parts=("load",), pool="erp")

with DAG("erp_follow", schedule=timedelta(minutes=15), doc_md=__doc__, **given):
    mssql_cdc_pipeline(group_id="erp", database=erp, parts=("follow",), pool="erp")
