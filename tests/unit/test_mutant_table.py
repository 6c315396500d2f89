"""The table of guards keeps up with the code: `make mutants` is run seldom, this always."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.table import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@every_mutant
def test_a_guard_stands_once_in_its_file_and_leaves_python_behind(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.text) == 1
    ast.parse(source.replace(mutant.text, mutant.replacement))


@every_mutant
def test_a_guard_names_a_test_that_exists(mutant: Mutant) -> None:
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@every_mutant
def test_a_guard_is_in_the_table_of_the_guarantees(mutant: Mutant) -> None:
    assert f"`{mutant.test}`" in (ROOT / "docs/guarantees.md").read_text()


def test_no_two_guards_share_a_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
