"""Airflow parses DAG files every few seconds: nothing heavy may come in with them."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HEAVY = (
    *("arro3", "deltalake", "mssql_python", "numpy", "openlineage", "pandas", "polars", "pyarrow"),
    "pymssql",
)

REPORT = f"""
import json, sys
print(json.dumps(sorted(set({HEAVY!r}) & {{name.partition(".")[0] for name in sys.modules}})))
"""

A_DAG = """
from airflow.sdk import DAG
from airflow_provider_mssql_cdc import MssqlCdcTable, mssql_cdc_bootstrap
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcCompleteOperator, MssqlCdcPlanOperator, MssqlCdcSnapshotOperator)

table = MssqlCdcTable(mssql_conn_id="erp", capture_instance="dbo_orders",
                      bronze="/lake/bronze/orders", facts="/lake/ops/facts")
with DAG("load", schedule=None) as dag:
    mssql_cdc_bootstrap(group_id="orders", table=table)
    plan = MssqlCdcPlanOperator(task_id="plan", table=table)
    read = MssqlCdcSnapshotOperator.partial(task_id="read", table=table).expand(key_range=plan.output)
    MssqlCdcCompleteOperator(task_id="complete", table=table, staged=read.output)
assert len(dag.tasks) == 6
"""

CHANGES_DAG = """
from airflow.sdk import DAG
from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.operators import MssqlCdcChangesOperator
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor
from airflow_provider_mssql_cdc.triggers.capture import MssqlCdcCaptureTrigger

table = MssqlCdcTable(mssql_conn_id="erp", capture_instance="dbo_orders",
                      bronze="/lake/bronze/orders", facts="/lake/ops/facts")
with DAG("read", schedule=None):
    MssqlCdcCaptureSensor(task_id="wait", table=table, time="{{ data_interval_end }}")
    MssqlCdcChangesOperator(task_id="changes", table=table, until="data_interval_end")
"""

THE_NAMES = """
import airflow_provider_mssql_cdc as package
assert package.MssqlCdcTable and package.mssql_cdc_bootstrap
assert set(package.__all__) <= set(dir(package))
"""

THE_PROVIDER_INFO = """
from airflow_provider_mssql_cdc.get_provider_info import get_provider_info
get_provider_info()
assert "airflow" not in sys.modules, "read in every Airflow process, before Airflow itself"
"""

THE_PLUGIN = """
from airflow_provider_mssql_cdc.ui.plugin import MssqlCdcPlugin
MssqlCdcPlugin()
assert "airflow_provider_mssql_cdc.ui.app" not in sys.modules, "made when the API server asks for it"
"""

THE_PYTEST_PLUGIN = """
import airflow_provider_mssql_cdc.embedded.pytest_plugin
assert "airflow" not in sys.modules, "loaded by every pytest run of its users"
"""


def run_fresh(code: str) -> list[str]:
    """Run code in a new interpreter; the heavy modules that it ended up with."""
    done = subprocess.run(
        [sys.executable, "-c", "import sys\n" + code + REPORT],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    heavy: list[str] = json.loads(done.stdout.splitlines()[-1])
    return heavy


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(A_DAG, id="a DAG with the task group and with the operators"),
        pytest.param(CHANGES_DAG, id="a DAG that reads changes, and the trigger"),
        pytest.param(THE_NAMES, id="the public names"),
        pytest.param(THE_PROVIDER_INFO, id="the provider info"),
        pytest.param(THE_PYTEST_PLUGIN, id="the pytest plugin"),
        pytest.param(THE_PLUGIN, id="the plugin that every Airflow process loads"),
    ],
)
def test_nothing_heavy_is_imported_by(code: str) -> None:
    assert run_fresh(code) == []


A_LOAD_AND_ITS_CHANGES = """
import tempfile
from pathlib import Path
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from tests.support.database_world import DatabaseWorld, create_table

with tempfile.TemporaryDirectory() as folder, EmbeddedSqlServer(database="shop") as server:
    create_table(server, "dbo.t0")
    create_table(server, "dbo.t1")
    world = DatabaseWorld(server, Path(folder), driver="mssql-python", tables={})
    world.run()
    world.close()
with tempfile.TemporaryDirectory() as folder, EmbeddedSqlServer(database="shop") as server:
    create_table(server, "dbo.t0")
    world = DatabaseWorld(server, Path(folder), driver="mssql-python", tables={}, silver=None)
    world.run()
    server.execute("UPDATE dbo.t0 SET name = N'größer' WHERE id < 3")
    server.idle()
    assert world.run().followed == 1
    world.close()
"""


def test_a_load_with_its_first_merge_and_a_run_of_changes_do_without_pandas() -> None:
    assert not {"pandas", "polars"} & set(run_fresh(A_LOAD_AND_ITS_CHANGES))


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    import airflow_provider_mssql_cdc as package

    with pytest.raises(AttributeError, match="no attribute 'MssqlCdcTabel'"):
        _ = package.MssqlCdcTabel


@pytest.mark.parametrize("missing", ["numpy", "cryptography"])
@pytest.mark.parametrize(
    "way_in",
    [
        "from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer",
        "from airflow_provider_mssql_cdc.embedded import Replica",
        "import runpy; runpy.run_module('airflow_provider_mssql_cdc.embedded', run_name='__main__')",
    ],
)
def test_the_embedded_server_without_its_extra_names_the_extra(missing: str, way_in: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None\n{way_in}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"needs {missing}, which the extra brings" in done.stderr
    assert "pip install 'airflow-provider-mssql-cdc[embedded]'" in done.stderr


def test_no_test_run_of_a_user_loads_the_fixture_unasked() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert "pytest11" not in project["entry-points"]


def test_the_documented_line_brings_the_fixture(tmp_path: Path) -> None:
    import airflow_provider_mssql_cdc.embedded.pytest_plugin as plugin

    (line,) = [line.strip() for line in (plugin.__doc__ or "").splitlines() if "pytest_plugins" in line]
    assert line in (Path(__file__).parents[2] / "README.md").read_text()
    (tmp_path / "conftest.py").write_text(line)
    (tmp_path / "test_users.py").write_text(
        "def test_it(embedded_sql_server):\n"
        "    assert embedded_sql_server.execute('SELECT DB_NAME() AS db') == [('demo',)]\n"
    )
    # An environment that was installed before the entry point went still names it.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:airflow_provider_mssql_cdc", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
