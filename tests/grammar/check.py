"""Parses what the package sent and what the stand-in accepted with Microsoft's T-SQL grammar.

::

    python -m tests.grammar.check --parser <python> --collected   what the other parts of make test left
    python -m tests.grammar.check --parser <python>               that, or else a quick part, run first

The texts are those that ``airflow_provider_mssql_cdc/collected.py`` wrote into the folder that
MSSQL_CDC_TEST_STATEMENTS names, and the golden files. Texts of one shape are parsed once. A string that one
of the grammars (the oldest server that is supported, and the newest that is known) refuses is a failure.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from airflow_provider_mssql_cdc.collected import shape_of

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("MSSQL_CDC_TEST_STATEMENTS") or ROOT / ".statements")
GOLDEN = ROOT / "tests/unit/tsql/golden"
QUICK = ("tests/contract", "tests/unit/jobs/test_snapshots.py", "tests/unit/jobs/test_changes.py")
KINDS = {"sent": "the package sends", "accepted": "the stand-in accepts", "golden": "golden files hold"}

_MARKER = re.compile(r"%%|%\((\w+)\)s")
_DELIMITED = re.compile(r"('(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|\"[^\"]*\"|--[^\n]*|/\*.*?\*/)|\?", re.DOTALL)


def as_variables(text: str) -> str:
    """``%(name)s`` as ``@name``, which is what a driver makes a parameter of."""
    return _MARKER.sub(lambda m: "%" if m[1] is None else f"@{m[1]}", text)


def without_question_marks(text: str) -> str:
    """The stand-in's Python interface takes ``?``; T-SQL has variables."""
    return _DELIMITED.sub(lambda m: m[1] or "@p", text)


def lines_of(kind: str) -> Iterator[str]:
    for path in sorted(FOLDER.glob(f"{kind}-*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def collected() -> dict[str, dict[str, str]]:
    """For each kind, one text of each shape."""
    found: dict[str, Iterable[str]] = {
        "sent": map(as_variables, lines_of("sent")),
        "accepted": map(without_question_marks, lines_of("accepted")),
        "golden": (as_variables(path.read_text(encoding="utf-8")) for path in sorted(GOLDEN.glob("*.sql"))),
    }
    return {kind: {shape_of(text): text for text in texts} for kind, texts in found.items()}


def run_a_quick_part() -> None:
    """Contract suite and the jobs' tests: enough of both kinds, in about a minute."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    environment = {**os.environ, "MSSQL_CDC_TEST_STATEMENTS": str(FOLDER)}
    print(f"Nothing was collected in {FOLDER}: a quick part runs first ({', '.join(QUICK)})", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "not soak", *QUICK]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def refusals(parser: str, texts: list[str]) -> dict[str, list[list[object]]]:
    """For each grammar: number of the text, error, line, column, message."""
    done = subprocess.run(
        [parser, str(Path(__file__).with_name("parse.py"))],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"Microsoft's grammar could not be run:\n{done.stderr}")
    answers: dict[str, list[list[object]]] = json.loads(done.stdout)
    return answers


def main(words: list[str]) -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--parser", required=True)
    options.add_argument("--collected", action="store_true")
    chosen = options.parse_args(words)
    if not Path(chosen.parser).exists():
        print("Nothing was checked: Microsoft's grammar is not here, it runs on Linux on x86-64 alone")
        return 0 if sys.platform != "linux" or platform.machine() != "x86_64" else 1
    found = collected()
    if not chosen.collected and not (found["sent"] and found["accepted"]):
        run_a_quick_part()
        found = collected()
    missing = [kind for kind, texts in found.items() if not texts]
    if missing:
        print(f"Nothing was collected in {FOLDER} of: {', '.join(KINDS[kind] for kind in missing)}")
        return 1
    asked = [(kind, text) for kind, texts in found.items() for text in texts.values()]
    started = time.monotonic()
    answers = refusals(chosen.parser, [text for _, text in asked])
    wrong: dict[int, list[str]] = {}
    for grammar, errors in answers.items():
        for number, code, line, column, message in errors:
            said = f"{grammar}: {code}, line {line}, column {column}: {message}"
            wrong.setdefault(int(str(number)), []).append(said)
    for number, said in wrong.items():
        kind, text = asked[number]
        print(f"\n{KINDS[kind]}, and SQL Server would refuse:\n{text[:2000]}\n  " + "\n  ".join(said))
    counts = ", ".join(f"{len(texts)} that {KINDS[kind]}" for kind, texts in found.items())
    print(
        f"\n{len(asked)} shapes ({counts}) by {' and '.join(answers)} in "
        f"{time.monotonic() - started:.0f} s: {len(wrong)} refused"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
