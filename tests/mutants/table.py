"""The guards that the guarantees rest on, and the test that turns red without each.

To add one, append a `Mutant` to the file in tests/mutants/guards/ that its topic belongs to (or add a
file with its own ``MUTANTS`` there: all of them are taken), and name the same test in docs/guarantees.md.
Then see it red: ``python -m tests.mutants.run <part of its name>``.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.mutants.mutant import Mutant

GUARDS = Path(__file__).parent / "guards"

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for file in sorted(GUARDS.glob("[a-z]*.py"))
    for mutant in import_module(f"tests.mutants.guards.{file.stem}").MUTANTS
)
