"""The table of guards keeps up with the code: `make mutants` is run seldom, this always."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants.mutant import Mutant
from tests.mutants.sites import mutated, sites
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]

every_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)


@every_mutant
def test_a_guard_stands_once_in_the_package_and_leaves_other_python_behind(mutant: Mutant) -> None:
    (site,) = sites(mutant, ROOT)
    without = ast.parse(mutated(mutant, site))
    assert ast.dump(without) != ast.dump(site.module)


@every_mutant
def test_a_guard_names_a_test_that_exists(mutant: Mutant) -> None:
    file, _, name = mutant.test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@every_mutant
def test_a_guard_is_in_the_table_of_the_guarantees(mutant: Mutant) -> None:
    assert f"`{mutant.test}`" in (ROOT / "docs/guarantees.md").read_text()


def test_no_two_guards_share_a_name() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
