"""What a facts table tells more than once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.support.delta_rows import delta_rows


def told_twice(facts: str | Path, *, storage_options: dict[str, str] | None = None) -> list[tuple[Any, ...]]:
    """Effects of which there is more than one row; a gap that is met again is not an effect."""
    rows = delta_rows(facts, storage_options=storage_options)
    assert rows
    told = Counter(_effect(row) for row in rows if row["event"] != "gap")
    return [effect for effect, times in told.items() if times > 1]


def _effect(row: dict[str, Any]) -> tuple[Any, ...]:
    """The wave tells apart what has one snapshot, the version of bronze what merges came to."""
    detail = json.loads(row["detail"] or "{}")
    which = ("event", "target", "snapshot", "batch_id", "min_lsn", "end_lsn")
    return (*(row[name] for name in which), detail.get("wave"), detail.get("bronze_version"))
