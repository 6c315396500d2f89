"""Another user of the source: commits all kinds of changes while a scenario runs."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.scenarios.conftest import Server


@contextmanager
def somebody_writing(
    server: Server,
    seed: int,
    *,
    choose: Callable[[random.Random], tuple[str, int]],
    row_of: Callable[[str, int], str],
    fresh_from: int,
    pauses: tuple[float, float],
) -> Iterator[None]:
    """Inserts, updates, deletes and changes of keys, one commit after the other.

    :param choose: a table of ``dbo`` and one of its keys.
    :param row_of: the row with a new key, in parentheses.
    :param fresh_from: new keys are above it.
    :param pauses: seconds between two commits, at least and at most.
    """
    writer, rng, stop = Server(server.connection), random.Random(seed), threading.Event()

    def write() -> None:
        fresh = fresh_from
        while not stop.wait(rng.uniform(*pauses)):
            (table, key), fresh = choose(rng), fresh + 1
            writer.execute(
                rng.choice(
                    (
                        f"INSERT INTO dbo.{table} VALUES {row_of(table, fresh)}",
                        f"UPDATE dbo.{table} SET name = N'{fresh}' WHERE id BETWEEN {key} AND {key + 9}",
                        f"DELETE FROM dbo.{table} WHERE id = {key}",
                        f"UPDATE dbo.{table} SET id = {fresh} WHERE id = {key}",
                    )
                )
            )

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
