"""Runs one example DAG by Airflow in this process: ``python -m demo.run_dag <dag_id>``.

A separate process, so that the tasks reach the server through the network and the real drivers, as
they would anywhere. Whoever starts it sets the environment (AIRFLOW_HOME, the connection, the lake).
"""

from __future__ import annotations

import logging
import sys

PACKAGE = "airflow_provider_mssql_cdc"


def main(dag_id: str) -> int:
    from airflow.utils.cli import get_bagged_dag
    from airflow.utils.db import initdb

    initdb()
    dag = get_bagged_dag(bundle_names=None, dag_id=dag_id)
    _show_the_package_log()
    run = dag.test(logical_date=None)
    return 0 if run is not None and str(run.state) == "success" else 1


def _show_the_package_log() -> None:
    """What this package logs, and nothing else of what Airflow does."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("  %(message)s"))
    logger = logging.getLogger(PACKAGE)
    logger.setLevel(logging.INFO)
    logger.handlers, logger.propagate = [handler], False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
