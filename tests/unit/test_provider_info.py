"""Airflow can read what this provider says about itself, and finds everything that it names."""

from __future__ import annotations

import importlib
import json
from importlib.metadata import entry_points
from pathlib import Path

import jsonschema
import pytest

from airflow_provider_mssql_cdc import __version__
from airflow_provider_mssql_cdc.get_provider_info import get_provider_info

INFO = get_provider_info()
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


def test_it_registers_no_second_connection_type_for_the_same_server() -> None:
    assert "connection-types" not in INFO


def test_the_version_is_the_packages() -> None:
    assert INFO["versions"] == [__version__]


def test_airflow_finds_it_by_its_entry_point() -> None:
    found = [
        entry
        for entry in entry_points(group="apache_airflow_provider")
        if entry.value.startswith("airflow_provider_mssql_cdc.")
    ]
    assert [entry.load() for entry in found] == [get_provider_info]
