"""Scripts as SQL Server's tools read them: batches between lines that say GO. Pure."""

from __future__ import annotations

import re

_GO = re.compile(r"^[ \t]*GO(?:[ \t]+(\d+))?[ \t]*;?[ \t]*(?:--[^\r\n]*)?\r?$", re.IGNORECASE | re.MULTILINE)


def split_batches(script: str) -> list[str]:
    """The batches of a script, empty ones left out; ``GO n`` repeats its batch n times."""
    batches, start = [], 0
    for separator in _GO.finditer(script):
        batch = script[start : separator.start()].strip()
        if batch:
            batches += [batch] * int(separator.group(1) or 1)
        start = separator.end()
    last = script[start:].strip()
    return [*batches, last] if last else batches
