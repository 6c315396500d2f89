"""Random commits against a table that is not clustered by silver's key: silver is the source nevertheless.

Rows move from key to key, by several statements of one commit, and nothing in a change row says which row it
was. Compared with the source table itself, which stands still in the meantime.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.jobs.change_source import ChangesRequest
from airflow_provider_mssql_cdc.jobs.extend_changes import run_changes
from airflow_provider_mssql_cdc.jobs.merge_silver import MergedSilver, MergeOrder, merge_silver
from tests.support.chunked import ChunkedLoad
from tests.support.delta_rows import delta_rows

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "4"))
MERGES = 6
CODES = 9
NOTES = ("NULL", "N'a'", "N'b'", "N'Ünï 🌺'")
TABLES = {
    "clustered by a number": "id int NOT NULL PRIMARY KEY, code {code} NOT NULL, INDEX ux UNIQUE (code)",
    "clustered by a number that repeats": "id int NOT NULL, code {code} NOT NULL, INDEX cx CLUSTERED (id), "
    "INDEX ux UNIQUE (code)",
    "clustered by nothing": "id int NOT NULL, code {code} NOT NULL, INDEX ux UNIQUE (code)",
    "clustered by two": "id int NOT NULL, code {code} NOT NULL, PRIMARY KEY (id, code), "
    "INDEX ux UNIQUE (code)",
}
NUMBER = "CAST(code AS decimal(9, 2))"
CODE_TYPES = ("int", "nvarchar(9)", "varchar(9)", "decimal(9, 2)")


class Source:
    """``dbo.orders (id, code, note, long)``; an id is of one row for good, unless a statement changes it."""

    def __init__(self, server: EmbeddedSqlServer, rng: random.Random) -> None:
        self.server, self.rng = server, rng
        declared = TABLES[rng.choice(sorted(TABLES))].format(code=rng.choice(CODE_TYPES))
        server.execute(
            f"CREATE TABLE dbo.orders ({declared}, note nvarchar(9) NULL, long nvarchar(max) NULL)"
        )
        self.ids = 0

    @contextmanager
    def commit(self) -> Iterator[Any]:
        with self.server.session() as session:
            session.run("BEGIN TRANSACTION")
            yield session
            session.run("COMMIT TRANSACTION")

    def write(self) -> None:
        """One to five statements in one commit."""
        with self.commit() as session:
            for _ in range(self.rng.randrange(1, 6)):
                self.statement(session)

    def statement(self, session: Any) -> None:
        here = [code for (code,) in session.rows(f"SELECT CAST({NUMBER} AS int) FROM dbo.orders")]
        free = [code for code in range(CODES) if code not in here]
        match self.rng.choice(["insert", "delete", "note", "move", "shift", "swap", "rotate", "renumber"]):
            case "insert" if free:
                self.insert(session, self.rng.choice(free))
            case "delete" if here:
                session.rows("DELETE dbo.orders WHERE code = ?", self.rng.choice(here))
            case "note":
                column, low = self.rng.choice(["note", "long"]), self.rng.randrange(CODES)
                note = self.rng.choice(NOTES)
                session.rows(f"UPDATE dbo.orders SET {column} = {note} WHERE id % 3 = {low % 3}")
            case "move" if here and free:
                moved = self.rng.choice(free), self.rng.choice(here)
                session.rows("UPDATE dbo.orders SET code = ? WHERE code = ?", *moved)
            case "shift" if here and free:
                self.renamed(session, self.shifted(here))
            case "swap" if len(here) > 1:
                one, other = self.rng.sample(here, 2)
                self.renamed(session, {one: other, other: one})
            case "rotate" if len(here) > 2:
                ring = self.rng.sample(here, self.rng.randrange(3, len(here) + 1))
                self.renamed(session, dict(zip(ring, [*ring[1:], ring[0]], strict=True)))
            case "renumber" if here:
                self.ids += 1
                session.rows("UPDATE dbo.orders SET id = ? WHERE code = ?", self.ids, self.rng.choice(here))

    def shifted(self, here: list[int]) -> dict[int, int]:
        """The codes from one on, each one up or one down; the last of them leaves the pool's range or not."""
        first, by = self.rng.choice(here), self.rng.choice([1, -1])
        moved = [code for code in here if (code >= first if by > 0 else code <= first)]
        ends = [code + by for code in moved]
        return dict(zip(moved, ends, strict=True)) if all(0 <= end < CODES for end in ends) else {}

    def renamed(self, session: Any, codes: dict[int, int]) -> None:
        """One statement for all of them, as ``SET code = CASE code WHEN 1 THEN 2 … END``."""
        if not codes:
            return
        cases = " ".join(f"WHEN {old} THEN '{new}'" for old, new in codes.items())
        olds = ", ".join(map(str, codes))
        session.rows(f"UPDATE dbo.orders SET code = CASE {NUMBER} {cases} END WHERE {NUMBER} IN ({olds})")

    def insert(self, session: Any, code: int) -> None:
        self.ids += 1
        note = self.rng.choice(NOTES)
        session.rows(f"INSERT dbo.orders VALUES (?, ?, {note}, N'long')", self.ids, code)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(self.server.execute("SELECT id, code, note, long FROM dbo.orders"), key=repr)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_silver_is_the_source_whatever_key_its_rows_moved_to(tmp_path: Path, seed: int) -> None:
    rng = random.Random(f"another key {seed}")
    with EmbeddedSqlServer(database="moves") as server:
        server.capture_mode = "manual"
        source = Source(server, rng)
        for code in rng.sample(range(CODES), rng.randrange(2, CODES)):
            with source.commit() as session:
                source.insert(session, code)
        server.enable_cdc("dbo.orders")
        silver = str(tmp_path / "silver")
        for number in range(MERGES):
            driver: Any = rng.choice(["mssql-python", "pymssql"])
            load = ChunkedLoad(
                server, tmp_path, instance="dbo_orders", run_id=f"run {number}", driver=driver, key=("code",)
            )
            if number == 0 or rng.random() < 0.15:
                load.all(resnapshot=number > 0)
            for _ in range(rng.randrange(1, 5)):
                server.key_updates = rng.choice(["pair", "images", "inserts first"])
                server.commands = rng.choice(["row", "statement"])
                source.write()
                server.clock.shift(timedelta(seconds=1))
                if rng.random() < 0.7:
                    server.capture()
            server.capture()
            server.clock.shift(timedelta(seconds=3))
            server.idle()
            run_changes(ChangesRequest(load.table, load.attempt("changes")), connect=load.connect)
            merged = merge_silver(MergeOrder(load.table, silver, load.attempt("merge")), connect=load.connect)
            assert isinstance(merged, MergedSilver)
            assert merged.consistency.passed, merged.consistency.reason
            rows = [tuple(row[name] for name in ("id", "code", "note", "long")) for row in delta_rows(silver)]
            assert sorted(rows, key=repr) == source.rows()
