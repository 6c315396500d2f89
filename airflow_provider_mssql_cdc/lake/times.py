"""Times as Delta holds them here: UTC, without a zone, in microseconds."""

from __future__ import annotations

from datetime import UTC, datetime


def naive_utc(value: datetime) -> datetime:
    """The same instant as a UTC time without zone; a time that has no zone is UTC already."""
    return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
