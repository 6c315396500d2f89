"""Tasks that wait in the triggerer: a merge for the horizon, a sensor for capture; and two that wait in vain.

The connection ``patient`` is kept in Airflow's database, where workers and the triggerer ask for it.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator, MssqlCdcMergeOperator
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor

LAKE = os.environ["SCENARIO_LAKE"]
QUICK = {"retries": 3, "retry_delay": timedelta(seconds=1)}


def table_in(bronze: str) -> MssqlCdcTable:
    return MssqlCdcTable(
        mssql_conn_id="patient",
        capture_instance="dbo_awaited",
        bronze=f"{LAKE}/bronze/{bronze}",
        facts=f"{LAKE}/ops/facts",
    )


with DAG(dag_id="merge_awaited", schedule=None):
    load = mssql_cdc_bootstrap(group_id="load", table=table_in("awaited"), default_args=QUICK)
    merge = MssqlCdcMergeOperator(
        task_id="merge",
        table=table_in("awaited"),
        silver=f"{LAKE}/silver/awaited",
        wait_consistent=True,
        wait_seconds=120,
        poll_seconds=8,
        **QUICK,
    )
    load >> merge

with DAG(dag_id="changes_awaited", schedule=None):
    MssqlCdcChangesOperator(task_id="changes", table=table_in("awaited"), quiet_seconds=0, **QUICK)

with DAG(dag_id="merge_in_vain", schedule=None):
    MssqlCdcMergeOperator(
        task_id="merge",
        table=table_in("never_loaded"),
        silver=f"{LAKE}/silver/never_loaded",
        wait_consistent=True,
        wait_seconds=20,
        poll_seconds=10,
        retries=0,
    )

for name, seconds in (("captured", 120), ("captured_in_vain", 10)):
    with DAG(dag_id=name, schedule=None):
        MssqlCdcCaptureSensor(
            task_id="captured",
            table=table_in("awaited"),
            time="{{ dag_run.conf['time'] }}",
            timeout=seconds,
            poke_interval=5,
            **QUICK,
        )
