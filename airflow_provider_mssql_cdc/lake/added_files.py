"""Which files brought rows into a Delta table since a version, told by its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from airflow_provider_mssql_cdc.lake.bronze import Bronze
from airflow_provider_mssql_cdc.lake.storage import TableStorage


class LogForgotten(Exception):
    """The log no longer holds what is asked for, or the files that it names are gone."""


def files_added_since(bronze: Bronze, version: int) -> tuple[str, ...]:
    """Files with rows that a later version up to the handle's brought, decoded, each once.

    Those are the files of add actions with ``dataChange``. A file that was taken out by a commit which put
    its rows in anew, as a repair does, is left to that commit. One that an OPTIMIZE took out is read as it
    is while it is there; once vacuum has removed it, what the OPTIMIZE put in its place is read.

    :raises LogForgotten: a commit in between, or a file, is gone.
    """
    storage = TableStorage(bronze.location)
    history = _Moves()
    for number in range(version + 1, bronze.version + 1):
        history.follow(_actions(storage, number))
    return tuple(dict.fromkeys(path for added in history.added for path in history.readable(added, storage)))


class _Moves:
    """Files that brought rows, and where an OPTIMIZE has put them since."""

    def __init__(self) -> None:
        self.added: dict[str, None] = {}
        self.moved: dict[str, list[str]] = {}

    def follow(self, actions: list[dict[str, Any]]) -> None:
        """One commit."""
        adds, removes = _of(actions, "add"), _of(actions, "remove")
        rearranged = [unquote(add["path"]) for add in adds if not add.get("dataChange", True)]
        for remove in removes:
            path = unquote(remove["path"])
            if remove.get("dataChange", True):
                self.added.pop(path, None)
            else:
                self.moved[path] = rearranged
        self.added.update((unquote(add["path"]), None) for add in adds if add.get("dataChange", True))

    def readable(self, path: str, storage: TableStorage) -> Iterator[str]:
        if storage.size(path) is not None:
            yield path
        elif path in self.moved:
            for moved in self.moved[path]:
                yield from self.readable(moved, storage)
        else:
            raise LogForgotten(f"file {path}, which brought rows, is gone")


def _of(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [action[kind] for action in actions if kind in action]


def _actions(storage: TableStorage, version: int) -> list[dict[str, Any]]:
    """A commit as the Delta protocol keeps it: one JSON object a line."""
    name = f"_delta_log/{version:020d}.json"
    if storage.size(name) is None:
        raise LogForgotten(f"its log no longer holds version {version}")
    with storage.open(name) as file:
        text = file.read().decode()
    return [json.loads(line) for line in text.split("\n") if line.strip()]
