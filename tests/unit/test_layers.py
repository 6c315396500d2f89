"""Imports point one way: operators → jobs → hooks, source, lake → planning → tsql → model.

A layer is a folder of the package, or a module at its top. Imports inside functions and those for type
checkers count as well: a layer that knows another one's types knows the layer.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "airflow_provider_mssql_cdc"
ROOT = Path(__file__).parents[2] / PACKAGE
MAX_LINES = 400

PURE = {"errors", "model", "table", "database", "planning", "tsql"}
VALUES = {"errors", "model", "table"}

# layer → the layers it may know (itself is always allowed)
MAY_KNOW: dict[str, set[str]] = {
    "errors": set(),
    "model": {"errors"},
    "table": {"errors", "model"},
    "database": {"errors", "model", "table"},
    "tsql": VALUES,
    "planning": {*VALUES, "tsql"},
    "arrow_types": VALUES,
    "collected": set(),
    "task_memory": {"errors"},
    "source": {*VALUES, "tsql", "planning", "arrow_types", "collected", "task_memory"},
    "lake": {*VALUES, "planning", "arrow_types", "task_memory"},
    "hooks": {*VALUES, "source"},
    "jobs": {*VALUES, "database", "source", "lake", "planning", "tsql", "arrow_types", "task_memory"},
    "operators": {*VALUES, "database", "planning", "jobs", "hooks", "source", "triggers"},
    "triggers": {*VALUES, "jobs", "hooks"},
    "sensors": {*VALUES, "jobs", "operators", "triggers"},
    "task_groups": {"errors", "table", "operators"},
    "pipeline": {"errors", "database", "operators"},
    "embedded": {"collected"},
    "__init__": {"table", "database", "task_groups", "pipeline", "operators"},
    "get_provider_info": {"__init__"},
    "setup_sql": {"errors", "model", "tsql"},
    "ui": {*VALUES, "planning", "lake", "hooks"},
    "cli": {*VALUES, "planning", "source", "lake", "hooks", "jobs", "setup_sql"},
}

# layer → what it may take from outside the standard library
FOREIGN: dict[str, set[str]] = {
    "arrow_types": {"pyarrow"},
    "source": {"pyarrow", "pymssql", "mssql_python"},
    "lake": {"pyarrow", "deltalake", "arro3"},
    "hooks": {"airflow"},
    "operators": {"airflow", "attr", "openlineage"},
    "sensors": {"airflow"},
    "triggers": {"airflow"},
    "task_groups": {"airflow"},
    "pipeline": {"airflow"},
    "cli": {"airflow"},
    "ui": {"airflow", "fastapi", "sqlalchemy"},
    "embedded": {"numpy", "cryptography", "pytest"},
}

MODULES = sorted(ROOT.rglob("*.py"))
every_module = pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))


def layer_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports_of(path: Path) -> Iterator[str]:
    """Absolute names of everything that a module imports, wherever in it."""
    here = (PACKAGE, *path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module or "")))
            yield from (f"{module}.{alias.name}" for alias in node.names)


def own_layer(name: str) -> str:
    """The layer that an import from this package reaches, its ``__init__`` for ``__version__``."""
    part = name.split(".")[1]
    return part if part in MAY_KNOW else "__init__"


@every_module
def test_a_layer_knows_only_the_layers_below_it(path: Path) -> None:
    layer = layer_of(path)
    known = {own_layer(name) for name in imports_of(path) if name.startswith(f"{PACKAGE}.")}
    assert known - {layer} <= MAY_KNOW[layer]


@every_module
def test_a_layer_takes_from_outside_only_what_it_adapts(path: Path) -> None:
    layer = layer_of(path)
    roots = {name.partition(".")[0] for name in imports_of(path)}
    foreign = roots - set(sys.stdlib_module_names) - {PACKAGE}
    assert foreign <= FOREIGN.get(layer, set())


def test_the_pure_layers_take_nothing_from_outside() -> None:
    assert not PURE & FOREIGN.keys()


def test_source_and_lake_do_not_know_each_other_and_nobody_knows_the_embedded_server() -> None:
    assert "lake" not in MAY_KNOW["source"]
    assert "source" not in MAY_KNOW["lake"]
    assert all("embedded" not in known for known in MAY_KNOW.values())


def test_imports_go_round_in_no_circle() -> None:
    order: list[str] = []
    left = dict(MAY_KNOW)
    while ready := [layer for layer, known in left.items() if known <= set(order)]:
        order += ready
        for layer in ready:
            del left[layer]
    assert not left


@every_module
def test_no_module_grows_beyond_what_one_reads_in_a_sitting(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_LINES
