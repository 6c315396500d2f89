"""Golden files of lines under headings: each line a fact that users rely on, in no order."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

HEADING = "## "


def read_sections(file: Path) -> dict[str, set[str]]:
    """Heading → lines; what stands above the first heading explains the file."""
    sections: dict[str, set[str]] = {}
    lines: set[str] = set()
    for line in file.read_text().splitlines():
        if line.startswith(HEADING):
            lines = sections.setdefault(line.removeprefix(HEADING), set())
        elif line:
            lines.add(line)
    return sections


def difference(golden: Mapping[str, Set[str]], found: Mapping[str, Set[str]]) -> str:
    """What to do about each line that is gone or new; an empty text when there is none."""
    parts = []
    for section in sorted({*golden, *found}):
        there, now = golden.get(section, set()), found.get(section, set())
        if gone := sorted(there - now):
            parts += [f"GONE from {section!r}; users rely on it: migrate it, and say so in CHANGELOG", *gone]
        if new := sorted(now - there):
            parts += [f"NEW in {section!r}; add these lines to the golden file, under that heading", *new]
    return "\n".join(parts)
