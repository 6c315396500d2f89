"""Hands the project's own tests what was sent and what was accepted; without the variable, nothing at all.

``make test-grammar`` parses it with Microsoft's grammar, see tests/grammar.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

FOLDER = os.environ.get("MSSQL_CDC_TEST_STATEMENTS")
"""Where each process writes ``sent-<pid>.jsonl`` and ``accepted-<pid>.jsonl``."""

_VALUES = re.compile(r"N?'(?:[^']|'')*'|\[(?:[^\]]|\]\])*\]|0x[0-9A-Fa-f]*|_[0-9a-f]{8}\b|\d[\d.]*")
_LISTS = re.compile(r"(?:#\s*,\s*)+#")
_ROWS = re.compile(r"(?:\(#\)\s*,\s*)+\(#\)")
_known: set[tuple[str, str]] = set()


def shape_of(text: str) -> str:
    """A text without its values and bracketed names, and with a list as its first element."""
    return _ROWS.sub("(#)", _LISTS.sub("#", _VALUES.sub("#", text)))


def collect(kind: str, text: str) -> None:
    """Record a statement unless one of the same shape was recorded."""
    if FOLDER is None:
        return
    shape = (kind, shape_of(text))
    if shape not in _known:
        _known.add(shape)
        with Path(FOLDER, f"{kind}-{os.getpid()}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(text) + "\n")
