"""docker-compose.yml, as it can be checked without an engine that runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.sdk import Connection

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.batches import split_batches
from airflow_provider_mssql_cdc.source.connect import settings_of
from airflow_provider_mssql_cdc.source.connection_report import connection_facts
from airflow_provider_mssql_cdc.source.session import SourceSession

ROOT = Path(__file__).parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
RUN_ONCE = {"airflow-init", "sqlserver-setup"}
AIRFLOW = {name for name in SERVICES if name.startswith("airflow-")}
OURS = "airflow-provider-mssql-cdc-playground"

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


@every_service
def test_every_service_says_how_much_memory_it_may_take(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", SERVICES[name]["mem_limit"])


@every_service
def test_no_image_floats(name: str) -> None:
    image = SERVICES[name]["image"]
    assert "latest" not in image
    assert ":" in image or image == OURS


def test_the_file_says_how_much_memory_docker_needs() -> None:
    assert re.search(r"needs \d+ GB of memory", (ROOT / "docker-compose.yml").read_text())


def test_one_service_builds_the_image_that_all_of_airflow_runs() -> None:
    assert [name for name in SERVICES if "build" in SERVICES[name]] == ["airflow-init"]
    assert {SERVICES[name]["image"] for name in AIRFLOW} == {OURS}
    assert {SERVICES[name]["pull_policy"] for name in AIRFLOW} == {"build", "never"}
    assert SERVICES["airflow-init"]["pull_policy"] == "build"


def test_sql_server_runs_as_the_one_platform_that_its_image_is_for() -> None:
    images = {SERVICES[name]["image"]: SERVICES[name].get("platform") for name in SERVICES}
    (server,) = [image for image in images if "mssql/server" in image]
    assert images[server] == "linux/amd64"
    assert re.search(r":2022-CU\d+-ubuntu-22\.04$", server)


def test_sql_server_takes_less_memory_than_its_container_has() -> None:
    sqlserver = SERVICES["sqlserver"]
    assert sqlserver["mem_limit"] == "3g"
    assert int(sqlserver["environment"]["MSSQL_MEMORY_LIMIT_MB"]) <= 2048


def test_airflow_waits_for_the_table_that_it_is_to_load() -> None:
    assert SERVICES["airflow-init"]["depends_on"].keys() == {"postgres", "sqlserver-setup"}
    assert SERVICES["sqlserver-setup"]["depends_on"].keys() == {"sqlserver"}


def test_what_talks_to_the_api_server_waits_for_it() -> None:
    assert "airflow-apiserver" not in SERVICES["airflow-apiserver"]["depends_on"]
    for name in AIRFLOW - {"airflow-init", "airflow-apiserver"}:
        assert SERVICES[name]["depends_on"]["airflow-apiserver"] == {"condition": "service_healthy"}


def test_all_of_airflow_runs_and_what_is_deferred_has_a_triggerer() -> None:
    commands = {str(SERVICES[name]["command"]) for name in AIRFLOW - {"airflow-init"}}
    assert commands == {"api-server", "scheduler", "dag-processor", "triggerer"}


def test_sql_server_runs_the_agent_which_runs_the_capture_job() -> None:
    assert SERVICES["sqlserver"]["environment"]["MSSQL_AGENT_ENABLED"] == "true"


def test_every_airflow_component_has_the_same_environment() -> None:
    init = dict(SERVICES["airflow-init"]["environment"])
    assert init.pop("LOADER_PASSWORD")
    assert all(SERVICES[name]["environment"] == init for name in AIRFLOW - {"airflow-init"})


def test_the_connections_of_the_ui_can_be_tested() -> None:
    assert SERVICES["airflow-apiserver"]["environment"]["AIRFLOW__CORE__TEST_CONNECTION"] == "Enabled"


def test_no_password_stands_where_its_characters_could_end_something() -> None:
    """Not in a URL, not in JSON: each is the whole value of a variable."""
    for name in SERVICES:
        for variable, value in SERVICES[name]["environment"].items():
            if "PASSWORD" in str(value):
                assert re.fullmatch(r"\$\{\w+:-[\w-]+\}", value), f"{name}: {variable}"


def test_both_steps_that_need_it_are_given_the_same_password_of_the_loader() -> None:
    given = [SERVICES[name]["environment"]["LOADER_PASSWORD"] for name in RUN_ONCE]
    assert len(set(given)) == 1


def test_tokens_are_signed_with_a_key_as_long_as_the_hash_asks_for() -> None:
    secret = SERVICES["airflow-scheduler"]["environment"]["AIRFLOW__API_AUTH__JWT_SECRET"]
    assert len(with_defaults(secret).encode()) >= 64


def test_the_image_is_built_from_files_that_the_build_is_given() -> None:
    dockerfile = (ROOT / SERVICES["airflow-init"]["build"]["dockerfile"]).read_text()
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(), flags=re.MULTILINE))
    copied = {
        source
        for line in re.findall(r"^COPY (?:--\S+ )*(.+) \S+$", dockerfile, flags=re.MULTILINE)
        for source in line.split()
    }
    assert copied <= allowed
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_keeps_its_airflow_and_is_checked() -> None:
    dockerfile = (ROOT / SERVICES["airflow-init"]["build"]["dockerfile"]).read_text()
    (version,) = re.findall(r"^FROM apache/airflow:([\d.]+)-python", dockerfile, flags=re.MULTILINE)
    (install,) = re.findall(r"^RUN pip install .*$", dockerfile, flags=re.MULTILINE)
    assert f"'apache-airflow=={version}'" in install
    assert install.endswith("&& pip check")


def test_the_example_dags_write_where_a_volume_is_mounted() -> None:
    scheduler = SERVICES["airflow-scheduler"]
    lake = scheduler["environment"]["MSSQL_CDC_LAKE"]
    assert any(volume.endswith(f":{lake}") for volume in scheduler["volumes"])


# -- the two steps that run once --------------------------------------------------------------------


HOSTILE = ["Playground-1", 'it\'s "quoted"', "a&b\\1 $(x) ${HOME} `id`", "<password>", "{}}%s;--"]


def ran(
    script: str, folder: Path, tool: str, body: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a script of docker/ with a tool of its own making in place of the image's."""
    path = folder / tool
    path.write_text(f"#!{sys.executable}\n{body}")
    path.chmod(0o755)
    variables = {"PATH": f"{folder}:{os.environ['PATH']}", "SQLCMD": str(path), "PAUSE_SECONDS": "0"}
    command = ["bash", str(ROOT / "docker" / script)]
    return subprocess.run(
        command, env={**variables, **environment}, capture_output=True, text=True, check=False
    )


SQLCMD = """
import json, pathlib, sys
log = pathlib.Path(__file__).with_name("log.json")
calls = json.loads(log.read_text()) if log.exists() else []
arguments = sys.argv[1:]
text = pathlib.Path(arguments[arguments.index("-i") + 1]).read_text()
calls.append([arguments, text])
log.write_text(json.dumps(calls))
if "sp_cdc_enable_table" in text and len(calls) <= 1 + FAILURES:
    print("Msg 22832 ... The error returned was NUMBER: 'Cannot perform this operation'")
    sys.exit(1)
"""


def setup_calls(folder: Path, *, failures: int = 0, number: int = 14258, password: str = "x") -> Any:
    body = SQLCMD.replace("FAILURES", str(failures)).replace("NUMBER", str(number))
    passwords = {"MSSQL_SA_PASSWORD": "sa's own", "LOADER_PASSWORD": password}
    done = ran("setup.sh", folder, "sqlcmd", body, **passwords)
    return done, json.loads((folder / "log.json").read_text())


def test_the_set_up_waits_for_the_agent(tmp_path: Path) -> None:
    done, calls = setup_calls(tmp_path, failures=3)
    assert done.returncode == 0, done.stderr
    assert len(calls) == 1 + 3 + 1
    assert done.stdout.count("SQL Server Agent is starting") == 3


def test_the_set_up_ends_at_any_other_error_and_shows_it(tmp_path: Path) -> None:
    done, calls = setup_calls(tmp_path, failures=3, number=22901)
    assert done.returncode == 1
    assert "The error returned was 22901" in done.stderr
    assert len(calls) == 2


def test_the_set_up_gives_up_when_the_agent_never_starts(tmp_path: Path) -> None:
    done, _ = setup_calls(tmp_path, failures=10**6)
    assert done.returncode == 1
    assert "Agent has not started" in done.stderr


def test_the_set_up_asks_the_server_with_every_error_an_end_and_no_variable_read(tmp_path: Path) -> None:
    _, calls = setup_calls(tmp_path)
    for arguments, _ in calls:
        assert {"-b", "-x", "-C", "-I"} <= set(arguments)
        assert arguments[arguments.index("-P") + 1] == "sa's own"


@pytest.mark.parametrize("password", HOSTILE[1:4])
def test_after_the_set_up_the_loader_reads_what_the_example_dags_load(tmp_path: Path, password: str) -> None:
    _, calls = setup_calls(tmp_path, password=password)
    examples = "".join(path.read_text() for path in (ROOT / "dags_examples").glob("*.py"))
    named = set(re.findall(r'capture_instance="dbo_(\w+)"', examples))
    for listed in re.findall(r"^TABLES = \((.*)\)$", examples, flags=re.MULTILINE):
        named |= set(re.findall(r'"(\w+)"', listed))
    with EmbeddedSqlServer() as server:
        for _, text in calls * 2:  # twice, as when the compose file is started again
            session = server.session()
            for batch in split_batches(text):
                session.rows(batch)
            session.close()
        assert server.execute("SELECT COUNT(*) FROM dbo.flights", database="travel") == [(131_072,)]
        connection = server.airflow_connection(login="loader", password=password, database="travel")
        settings = settings_of(Connection(conn_id="erp", **fields_of(connection)))
        with SourceSession(settings) as session:
            facts = connection_facts(session)
    made = {rights.instance.source_table for rights in facts.instances}
    assert named
    assert named <= made
    assert all(rights.may_read_changes and rights.in_gating_role for rights in facts.instances)


def fields_of(connection: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(connection)
    fields["extra"] = json.dumps(fields["extra"])
    return fields


def test_the_set_up_of_cdc_is_what_the_package_prints_for_these_tables() -> None:
    command = [sys.executable, "-m", "airflow_provider_mssql_cdc.setup_sql", "--database", "travel"]
    command += ["--role", "cdc_reader", "--tables", "dbo.airlines", "dbo.airports", "dbo.flights"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (ROOT / "docker/cdc.sql").read_text() == done.stdout


AIRFLOW_COMMAND = """
import json, pathlib, sys
with pathlib.Path(__file__).with_name("log.jsonl").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
sys.exit("delete" in sys.argv)
"""


@pytest.mark.parametrize("password", HOSTILE)
def test_airflows_first_step_makes_database_pool_and_a_connection_that_is_read(
    tmp_path: Path, password: str
) -> None:
    done = ran("init.sh", tmp_path, "airflow", AIRFLOW_COMMAND, LOADER_PASSWORD=password)
    assert done.returncode == 0, done.stderr
    commands = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert commands[0] == ["db", "migrate"]
    assert ["pools", "set", "erp"] in [command[:3] for command in commands]
    added = commands[-1]
    assert added[:3] == ["connections", "add", "erp"]
    fields = {
        name.removeprefix("--conn-"): value for name, value in zip(added[3::2], added[4::2], strict=True)
    }
    settings = settings_of(
        Connection(
            conn_id="erp",
            conn_type=fields["type"],
            host=fields["host"],
            port=int(fields["port"]),
            schema=fields["schema"],
            login=fields["login"],
            password=fields["password"],
            extra=fields["extra"],
        )
    )
    assert settings.host in SERVICES
    assert (settings.database, settings.login, settings.password) == ("travel", "loader", password)
    assert (settings.encryption, settings.trust_server_certificate) == ("require", True)


def test_the_pools_that_the_example_dags_name_are_made() -> None:
    examples = "".join(path.read_text() for path in (ROOT / "dags_examples").glob("*.py"))
    made = set(re.findall(r"airflow pools set (\w+)", (ROOT / "docker/init.sh").read_text()))
    assert set(re.findall(r'pool="(\w+)"', examples)) - {"default_pool"} == made
