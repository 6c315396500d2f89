"""What the documents say is checked against the files: links, commands, code, and the claims' tests."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
DECISIONS = sorted((ROOT / "docs/adr").glob("*.md"))
SECTIONS = ["Context", "Decision", "Consequences", "A change violates this when", "Evidence"]

every_document = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
every_decision = pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)


def code_spans(text: str) -> list[str]:
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@every_document
def test_links_between_the_documents_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_the_readme_links_to_files_by_addresses_that_lead_there_from_anywhere() -> None:
    """Relative links are dead on the package index, which shows the README alone."""
    text = (ROOT / "README.md").read_text()
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert re.findall(r"\]\((?!https://|#)[^)]*\)", text) == []
    ours = re.findall(rf"\]\({re.escape(urls['Repository'])}/blob/main/([^)#]+)", text)
    assert ours
    assert [target for target in ours if not (ROOT / target).exists()] == []
    assert all(url.startswith(urls["Repository"]) for url in urls.values())


@every_document
def test_files_that_a_document_names_exist(path: Path) -> None:
    named = {
        span
        for span in code_spans(path.read_text())
        if re.fullmatch(r"[\w./-]+/[\w.-]*|[\w/.-]+\.(py|md|yml|sql|toml)", span) and span[0].isalpha()
    }
    package = ROOT / "airflow_provider_mssql_cdc"
    assert {name for name in named if not (ROOT / name).exists() and not (package / name).exists()} == set()


@every_document
def test_make_targets_that_a_document_names_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    text = path.read_text()
    code = "\n".join([*code_spans(text), *re.findall(r"```.*?```", text, flags=re.DOTALL)])
    assert set(re.findall(r"\bmake ([a-z][a-z-]*)", code)) <= targets


@every_document
def test_python_in_a_document_is_python(path: Path) -> None:
    for block in blocks(path.read_text(), "python"):
        ast.parse(block)


def test_the_dag_of_the_readme_has_the_three_tasks() -> None:
    block = next(block for block in blocks((ROOT / "README.md").read_text(), "python") if "DAG" in block)
    namespace: dict[str, object] = {}
    exec(block, namespace)
    from airflow.sdk import DAG

    dags = [value for value in namespace.values() if isinstance(value, DAG)]
    assert [sorted(dag.task_ids) for dag in dags] == [["orders.complete", "orders.plan", "orders.read"]]


@every_decision
def test_a_decision_has_its_five_sections_in_order(path: Path) -> None:
    assert re.findall(r"^## (.+)$", path.read_text(), flags=re.MULTILINE) == SECTIONS


def test_decisions_are_numbered_without_a_hole() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))


def test_the_readme_fits_on_a_few_screens() -> None:
    assert 60 <= len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_every_test_that_the_guarantees_name_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/guarantees.md").read_text())
    missing = [f"{file}::{name}" for file, name in named if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []
    assert named


WALKS = re.findall(
    r"^\| .+ \| `([\w/]+\.py)` \| `([\w.]+)` \|$", (ROOT / "docs/walks.md").read_text(), re.MULTILINE
)


@pytest.mark.parametrize(("file", "function"), WALKS, ids=lambda text: text.rpartition("/")[2])
def test_a_step_of_a_walk_is_a_function_of_that_file(file: str, function: str) -> None:
    tree: ast.AST = ast.parse((ROOT / "airflow_provider_mssql_cdc" / file).read_text())
    for name in function.split("."):
        found = [
            node
            for node in ast.iter_child_nodes(tree)
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name
        ]
        assert found, f"{name} is not in {file}"
        tree = found[0]
