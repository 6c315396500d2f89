"""The tree of errors: drawn as it is, every class used, every class explained to on-call engineers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from airflow_provider_mssql_cdc import errors
from airflow_provider_mssql_cdc.source.errors import RULES, UNKNOWN

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "airflow_provider_mssql_cdc"
OPERATIONS = (ROOT / "docs/operations.md").read_text()


def below(error: type[errors.MssqlCdcError]) -> list[type[errors.MssqlCdcError]]:
    """The public classes; a module may know a narrower one that it catches itself."""
    children = [child for child in error.__subclasses__() if child.__module__ == errors.__name__]
    return [found for child in children for found in (child, *below(child))]


LEAVES = [error for error in below(errors.MssqlCdcError) if not below(error)]
every_class = pytest.mark.parametrize("error", LEAVES, ids=lambda error: error.__name__)


def built_somewhere() -> set[str]:
    """Names of classes that the package calls, outside the module that defines them and the stand-in."""
    apart = (PACKAGE / "errors.py", *(PACKAGE / "embedded").rglob("*.py"))
    modules = [path for path in PACKAGE.rglob("*.py") if path not in apart]
    nodes = (node for path in modules for node in ast.walk(ast.parse(path.read_text())))
    return {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")
    assert drawn == [error.__name__ for error in below(errors.MssqlCdcError)]


def test_every_class_is_raised_or_mapped_from_the_server_s_errors() -> None:
    mapped = {rule.error.__name__ for rule in (*RULES, UNKNOWN)}
    assert {error.__name__ for error in LEAVES} - mapped - built_somewhere() == set()


@every_class
def test_a_class_is_retryable_by_its_branch_alone(error: type[errors.MssqlCdcError]) -> None:
    assert error.retryable is issubclass(error, errors.RetryableError)
    assert "retryable" not in vars(error)
    assert issubclass(error, errors.RetryableError) != issubclass(error, errors.PermanentError)


def explained() -> dict[str, list[str]]:
    """Rows of the tables of docs/operations.md that begin with the name of an error."""
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \|$", OPERATIONS, flags=re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in rows}


def test_every_class_is_explained_once_to_the_people_on_call() -> None:
    names = re.findall(r"^\| `(\w+)` \|", OPERATIONS, flags=re.MULTILINE)
    known = {error.__name__ for error in LEAVES}
    assert sorted(name for name in names if name in known) == sorted(known)


@every_class
def test_it_stands_where_airflow_treats_it_so_and_says_what_to_do(error: type[errors.MssqlCdcError]) -> None:
    heading = "### Tried again by Airflow" if error.retryable else "### Fail at once"
    section = OPERATIONS.split(heading)[1].split("\n#")[0]
    assert f"| `{error.__name__}` |" in section
    means, press = explained()[error.__name__]
    assert len(means) > 20
    assert len(press) > 10
