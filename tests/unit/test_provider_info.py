"""Airflow can read what this provider says about itself, and finds everything that it names."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import jsonschema
import pytest

from airflow_provider_mssql_cdc import __version__
from airflow_provider_mssql_cdc.get_provider_info import get_provider_info

INFO = get_provider_info()
FORM = INFO["connection-types"][0]["conn-fields"]
KINDS = ("operators", "sensors", "triggers", "hooks")
NAMED_MODULES = [module for kind in KINDS for entry in INFO[kind] for module in entry["python-modules"]]


def test_the_provider_info_fits_airflows_own_schema() -> None:
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())
    jsonschema.validate(INFO, schema)
    unknown = INFO.keys() - schema["properties"].keys() - {"versions"}
    assert not unknown, "versions is customary, anything else would be read by nobody"


@pytest.mark.parametrize("module", NAMED_MODULES)
def test_every_module_that_it_names_can_be_imported(module: str) -> None:
    importlib.import_module(module)


@pytest.mark.parametrize("link", INFO["extra-links"])
def test_every_link_that_it_names_is_a_link(link: str) -> None:
    from airflow.sdk import BaseOperatorLink

    module, _, name = link.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), name), BaseOperatorLink)


def test_every_module_of_operators_is_named() -> None:
    package = Path(importlib.import_module("airflow_provider_mssql_cdc.operators").__path__[0])
    there = {path.stem for path in package.glob("[a-z]*.py")} - {"links"}
    (named,) = INFO["operators"]
    assert {module.rpartition(".")[2] for module in named["python-modules"]} == there


def test_every_integration_that_it_uses_is_described() -> None:
    described = {entry["integration-name"] for entry in INFO["integrations"]}
    used = {entry["integration-name"] for kind in KINDS for entry in INFO[kind]}
    assert used == described


def test_the_documentation_link_leads_to_this_packages_documents() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert {entry["external-doc-url"] for entry in INFO["integrations"]} == {project["urls"]["Documentation"]}


def test_no_module_is_named_twice() -> None:
    assert len(NAMED_MODULES) == len(set(NAMED_MODULES))


def test_the_connection_form_fits_the_schema_that_airflow_has_for_it() -> None:
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider.yaml.schema.json").read_text())
    jsonschema.validate(INFO["connection-types"], schema["properties"]["connection-types"])


def test_airflow_knows_the_connection_type_and_shows_its_form_without_importing_the_hook() -> None:
    code = (
        "import sys, json\n"
        "from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService\n"
        "(ours,) = [m for m in HookMetaService.hook_meta_data() if m.connection_type == 'mssql_cdc']\n"
        "assert 'pymssql' not in sys.modules\n"
        "print(json.dumps([ours.hook_name, ours.standard_fields.url_schema.title, list(ours.extra_fields)]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    name, database, fields = json.loads(done.stdout.splitlines()[-1])
    assert (name, database) == ("SQL Server (CDC)", "Database")
    assert set(fields) == set(FORM)


def test_the_hook_is_of_the_type_that_names_it_and_has_none_of_the_deprecated_methods() -> None:
    from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook

    (described,) = INFO["connection-types"]
    assert described["hook-class-name"] == f"{MssqlCdcHook.__module__}.{MssqlCdcHook.__name__}"
    assert (described["connection-type"], described["hook-name"]) == (
        MssqlCdcHook.conn_type,
        MssqlCdcHook.hook_name,
    )
    assert not {"get_connection_form_widgets", "get_ui_field_behaviour"} & vars(MssqlCdcHook).keys()


@pytest.mark.parametrize("name", FORM)
def test_every_value_that_the_form_can_store_is_read(name: str) -> None:
    from airflow_provider_mssql_cdc.source.settings import read_extras

    schema = FORM[name]["schema"]
    kind = schema["type"][0]
    values = schema.get("enum") or {"boolean": [True, False], "integer": [0, 7], "string": ["x"]}[kind]
    for value in [*values, None, schema.get("default")]:
        read_extras({name: value}, conn_id="erp")
    if kind == "string":
        assert read_extras({name: ""}, conn_id="erp") == {}


def test_the_version_is_the_packages() -> None:
    assert INFO["versions"] == [__version__]


def test_airflow_finds_it_by_its_entry_point() -> None:
    found = [
        entry
        for entry in entry_points(group="apache_airflow_provider")
        if entry.value.startswith("airflow_provider_mssql_cdc.")
    ]
    assert [entry.load() for entry in found] == [get_provider_info]
