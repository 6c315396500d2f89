"""docker-compose.yml, as far as it can be checked without an engine that runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
RUN_ONCE = {"airflow-init", "sqlserver-setup"}

every_service = pytest.mark.parametrize("name", SERVICES)


def with_defaults(text: str) -> str:
    """What compose makes of ``${NAME:-default}`` when nobody sets NAME."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)


@every_service
def test_ports_are_open_to_this_machine_alone(name: str) -> None:
    assert all(str(port).startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@every_service
def test_what_stays_up_has_a_health_check_and_what_runs_once_does_not_restart(name: str) -> None:
    if name in RUN_ONCE:
        assert SERVICES[name]["restart"] == "no"
    else:
        assert SERVICES[name]["healthcheck"]["test"]


@every_service
def test_a_service_waits_for_others_that_exist_and_can_tell(name: str) -> None:
    for other, wish in SERVICES[name].get("depends_on", {}).items():
        ends = wish["condition"] == "service_completed_successfully"
        assert ends == (other in RUN_ONCE)
        assert ends or "healthcheck" in SERVICES[other]


@every_service
def test_mounted_files_exist_and_named_volumes_are_declared(name: str) -> None:
    for volume in SERVICES[name].get("volumes", []):
        source = volume.split(":")[0]
        assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"]


def test_airflow_waits_for_the_table_that_it_is_to_load() -> None:
    assert SERVICES["airflow-init"]["depends_on"].keys() == {"postgres", "sqlserver-setup"}
    assert SERVICES["sqlserver-setup"]["depends_on"].keys() == {"sqlserver"}


def test_sql_server_runs_the_agent_which_runs_the_capture_job() -> None:
    assert SERVICES["sqlserver"]["environment"]["MSSQL_AGENT_ENABLED"] == "true"


def test_every_airflow_component_has_the_same_environment() -> None:
    names = [name for name in SERVICES if name.startswith("airflow-")]
    environments = [SERVICES[name]["environment"] for name in names]
    assert len(environments) == 4
    assert all(environment == environments[0] for environment in environments)


def test_the_connection_logs_in_as_the_user_that_the_set_up_step_makes() -> None:
    connection = json.loads(with_defaults(SERVICES["airflow-scheduler"]["environment"]["AIRFLOW_CONN_ERP"]))
    setup = (ROOT / "docker/setup.sql").read_text()
    assert connection["host"] in SERVICES
    assert f"CREATE LOGIN {connection['login']} " in setup
    assert f"CREATE DATABASE {connection['schema']};" in setup
    password = with_defaults(SERVICES["sqlserver-setup"]["environment"]["LOADER_PASSWORD"])
    assert connection["password"] == password


def test_tokens_are_signed_with_a_key_as_long_as_the_hash_asks_for() -> None:
    secret = SERVICES["airflow-scheduler"]["environment"]["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert len(with_defaults(secret).encode()) >= 64


def test_the_image_is_built_from_files_that_the_build_is_given() -> None:
    build = SERVICES["airflow-scheduler"]["build"]
    dockerfile = (ROOT / build["dockerfile"]).read_text()
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), flags=re.MULTILINE))
    copied = {
        source
        for line in re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", dockerfile, flags=re.MULTILINE)
        for source in line.split()
    }
    assert copied <= allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_set_up_step_makes_the_tables_that_the_example_dags_load() -> None:
    examples = "".join(path.read_text() for path in (ROOT / "dags_examples").glob("bootstrap_*.py"))
    named = set(re.findall(r'capture_instance="dbo_(\w+)"', examples))
    for listed in re.findall(r"^TABLES = \((.*)\)$", examples, flags=re.MULTILINE):
        named |= set(re.findall(r'"(\w+)"', listed))
    made = set(re.findall(r"CREATE TABLE dbo\.(\w+)", (ROOT / "docker/setup.sql").read_text()))
    assert named
    assert named <= made


def test_the_example_dags_write_where_a_volume_is_mounted() -> None:
    scheduler = SERVICES["airflow-scheduler"]
    lake = scheduler["environment"]["MSSQL_CDC_LAKE"]
    assert any(volume.endswith(f":{lake}") for volume in scheduler["volumes"])
