"""Takes each guard out of a copy of the package, one at a time, and demands that its test turns red.

::

    python -m tests.mutants.run            all of them
    python -m tests.mutants.run typed      those whose name holds "typed"

First every named test has to be green on the code as it is. Then, per mutant, one piece of code is
replaced in one file of the copy and the named test is run: it must fail. A test that cannot be
collected, or that does not end, proves nothing and counts against the mutant.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.mutants.mutant import Mutant
from tests.mutants.sites import mutated, sites
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parents[2]
COPIED = ("airflow_provider_mssql_cdc", "tests", "dags_examples", "demo", "pyproject.toml")
TIMEOUT_SECONDS = 300

GREEN, RED, BROKEN, ENDLESS = "green", "red", "not run", "endless"


def copy_of_the_project(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def outcome_of(test: str, project: Path) -> str:
    """Run one test (or its parametrized cases) on the copy."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    # The copy comes first on the path: before the editable install, in processes that a test starts too.
    environment = {**os.environ, "PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=project,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ENDLESS
    if done.returncode == 0 and " passed" in done.stdout:
        return GREEN
    return RED if done.returncode == 1 and " failed" in done.stdout else BROKEN


@contextmanager
def applied(mutant: Mutant, project: Path) -> Iterator[None]:
    found = sites(mutant, ROOT)
    if len(found) != 1:
        raise SystemExit(f"{mutant.name}: {len(found)} places in functions named {mutant.function}")
    path = project / found[0].file.relative_to(ROOT)
    original = path.read_text()
    path.write_text(mutated(mutant, found[0]))
    try:
        yield
    finally:
        path.write_text(original)


def report(items: Iterable[tuple[str, Callable[[], str]]], *, wanted: str) -> int:
    """Run each item, print a line for it, and count those that came out otherwise."""
    wrong = 0
    for name, run in items:
        started = time.monotonic()
        outcome = run()
        wrong += outcome != wanted
        mark = "ok" if outcome == wanted else "BAD"
        print(f"{mark:4}{outcome:8}{time.monotonic() - started:6.1f} s  {name}", flush=True)
    return wrong


def run_mutant(mutant: Mutant, project: Path) -> str:
    with applied(mutant, project):
        return outcome_of(mutant.test, project)


def main(words: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        project = copy_of_the_project(Path(folder))
        tests = dict.fromkeys(mutant.test for mutant in chosen)
        print(f"{len(tests)} tests on the code as it is: green?")
        wrong = report(((test, lambda test=test: outcome_of(test, project)) for test in tests), wanted=GREEN)
        print(f"{len(chosen)} guards taken out, one at a time: red?")
        wrong += report(
            ((f"{m.name}: {m.test}", lambda m=m: run_mutant(m, project)) for m in chosen), wanted=RED
        )
    print(f"{len(chosen)} mutants, {wrong} not as they should be")
    return 1 if wrong or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
