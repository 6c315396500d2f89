"""The one call that commits, and what it leaves open: whether a commit landed is told by the log alone.

A PUT whose answer is lost is sent again and refused (412), because the first one landed: delta-rs then
reports a conflict with a commit that is its own (object_store repeats requests that fail without an answer).
So each commit carries a token, and one that seems to have lost looks for it in the versions since.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import AddAction, RemoveAction

from airflow_provider_mssql_cdc.lake.log import COMMIT_KEY, EVENT_KEY
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import distinct


class InDoubt:
    """Files that were handed to a commit of which it is not known that it failed. They are never removed."""

    def __init__(self) -> None:
        self._paths: set[str] = set()

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def hand_over(self, paths: Iterable[str]) -> None:
        """Call before the commit is sent: it may land although no answer comes."""
        self._paths.update(paths)

    def take_back(self, paths: Iterable[str]) -> None:
        """Call when another commit holds the version: this one cannot land any more."""
        self._paths.difference_update(paths)


def commit_files(
    location: TableLocation,
    table: DeltaTable,
    files: Sequence[AddAction | RemoveAction],
    *,
    event: str,
    transactions: Sequence[Transaction],
    user_metadata: Mapping[str, Any],
    in_doubt: InDoubt,
    overtaken: bool,
) -> int:
    """One commit on the handle's version; returns the version it became.

    :param overtaken: whether commits of others that do not conflict may have come first.
    :raises deltalake.exceptions.CommitFailedError: another commit was first; nothing was written.
    """
    token, before = secrets.token_hex(8), int(table.version())
    properties = CommitProperties(
        custom_metadata={
            "userMetadata": json.dumps(user_metadata),
            COMMIT_KEY: token,
            EVENT_KEY: event,
        },
        app_transactions=distinct(transactions),
        max_commit_retries=None if overtaken else 0,
    )
    added = [file.path for file in files if isinstance(file, AddAction)]
    in_doubt.hand_over(added)
    try:
        table.create_write_transaction(
            list(files), mode="append", schema=table.schema(), commit_properties=properties
        )
    except CommitFailedError:
        landed = _landed(location, token, above=before)
        if landed is None:
            in_doubt.take_back(added)
            raise
        return landed
    if not overtaken:
        return before + 1
    found = _landed(location, token, above=before)
    if found is not None:
        return found
    newest = DeltaTable(location.uri, storage_options=location.options())
    return int(newest.version())  # the log below was cleaned in the meantime; this version holds the commit


def _landed(location: TableLocation, token: str, *, above: int) -> int | None:
    """The version that the commit with this token became, None when no version since has it."""
    newest = DeltaTable(location.uri, storage_options=location.options())
    since = newest.version() - above
    for info in newest.history(since) if since > 0 else ():
        if info.get(COMMIT_KEY) == token:
            return int(info["version"])
    return None
