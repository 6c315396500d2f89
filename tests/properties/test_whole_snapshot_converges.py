"""Random rounds: changes are committed at every moment of a whole snapshot; what is rebuilt is the source.

The rule is the one of docs/guarantees.md: past the horizon, the latest row of each key among the snapshot's
rows and the changes above S, without the keys whose latest row is a delete or a before-image.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc import MssqlCdcTable
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.hooks.mssql_cdc import MssqlCdcHook
from airflow_provider_mssql_cdc.jobs.complete_snapshot import CompletedSnapshot, complete_snapshot
from airflow_provider_mssql_cdc.jobs.plan_snapshot import PlanRequest, plan_snapshot
from airflow_provider_mssql_cdc.jobs.read_range import read_range
from airflow_provider_mssql_cdc.model.plan import Attempt
from tests.support.delta_rows import delta_rows
from tests.support.rebuild import rebuild

ROUNDS = int(os.environ.get("MSSQL_CDC_ROUNDS", "6"))
COLUMNS = ("id", "name", "amount", "placed", "body")
FIRST_DAY = datetime(2024, 2, 28)


class Writer:
    """Commits random changes to one table, in a key space small enough that keys meet again."""

    def __init__(self, server: EmbeddedSqlServer, table: str, rng: random.Random) -> None:
        self.server, self.table, self.rng = server, table, rng
        self.keys = rng.choice([range(-40, 40), range(200), range(10**12, 10**12 + 90)])

    def fill(self) -> None:
        picked = self.rng.sample(list(self.keys), self.rng.randrange(0, len(self.keys)))
        self.server.executemany(
            f"INSERT INTO {self.table} VALUES (?, ?, ?, ?, CAST(? AS varbinary(40)))",
            [self._row(key) for key in picked],
        )

    def _row(self, key: int) -> tuple[Any, ...]:
        maybe = lambda value: value if self.rng.random() < 0.8 else None  # noqa: E731
        return (
            key,
            maybe(self.rng.choice(["", "a", "A ", "Ünïcode 🌺", "x" * 300])),
            maybe(f"{self.rng.randrange(-(10**14), 10**14)}.{self.rng.randrange(10**4):04d}"),
            maybe(FIRST_DAY + timedelta(microseconds=self.rng.randrange(10**12))),
            maybe(self.rng.randbytes(self.rng.randrange(20))),
        )

    def change(self) -> None:
        """One transaction: one to four statements that insert, update, delete or move keys."""
        with self.server.session() as session:
            session.run("BEGIN TRANSACTION")
            for _ in range(self.rng.randrange(1, 5)):
                self._statement(session)
            session.run("COMMIT TRANSACTION" if self.rng.random() < 0.9 else "ROLLBACK TRANSACTION")

    def _statement(self, session: Any) -> None:
        key, other = self.rng.choice(self.keys), self.rng.choice(self.keys)
        present = {row[0] for row in session.rows(f"SELECT id FROM {self.table}")}
        kind = self.rng.choice(["insert", "update", "delete", "move", "reinsert", "many"])
        if kind == "insert" and key not in present:
            session.rows(
                f"INSERT INTO {self.table} VALUES (?, ?, ?, ?, CAST(? AS varbinary(40)))", *self._row(key)
            )
        elif kind == "update":
            session.rows(
                f"UPDATE {self.table} SET name = ?, amount = ? WHERE id = ?", *self._row(key)[1:3], key
            )
        elif kind == "delete":
            session.rows(f"DELETE FROM {self.table} WHERE id = ?", key)
        elif kind == "move" and key in present and other not in present:
            session.rows(f"UPDATE {self.table} SET id = ? WHERE id = ?", other, key)
        elif kind == "reinsert" and key in present:
            session.rows(f"DELETE FROM {self.table} WHERE id = ?", key)
            session.rows(
                f"INSERT INTO {self.table} VALUES (?, ?, ?, ?, CAST(? AS varbinary(40)))", *self._row(key)
            )
        elif kind == "many":
            session.rows(f"UPDATE {self.table} SET name = ? WHERE id >= ?", f"many {key}", key)

    def some(self) -> None:
        """Nothing, or some transactions, some of them captured at once."""
        for _ in range(self.rng.randrange(3)):
            self.change()
            if self.rng.random() < 0.5:
                self.server.capture(commits=self.rng.randrange(1, 3))


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedSqlServer]:
    with EmbeddedSqlServer(database="rounds") as running:
        running.enable_cdc()
        yield running


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_past_the_horizon_the_rebuilt_table_is_the_source(
    server: EmbeddedSqlServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, driver: str
) -> None:
    rng = random.Random(f"{seed} {driver}")
    name = f"t{seed}_{driver.replace('-', '_')}"
    server.key_updates = rng.choice(["pair", "images", "inserts first"])
    server.commands = rng.choice(["row", "statement"])
    server.capture_mode = "manual"
    server.execute(
        f"CREATE TABLE dbo.{name} (id bigint NOT NULL PRIMARY KEY, name nvarchar(300) NULL, "
        "amount decimal(18, 4) NULL, placed datetime2(7) NULL, body varbinary(40) NULL)"
    )
    writer = Writer(server, f"dbo.{name}", rng)
    writer.fill()
    server.enable_cdc(f"dbo.{name}")
    connection = server.airflow_connection(extra={"mssql_cdc": {"driver": driver}})
    monkeypatch.setenv("AIRFLOW_CONN_ROUNDS", connection)
    table = MssqlCdcTable(
        mssql_conn_id="rounds",
        capture_instance=f"dbo_{name}",
        bronze=str(tmp_path / "b"),
        facts=str(tmp_path / "f"),
    )

    completed = _snapshot_while_writing(server, table, writer, rng)
    writer.some()
    server.capture()
    server.clock.shift(timedelta(seconds=2))
    end = server.idle()
    assert end is not None
    assert completed.horizon is not None
    assert end > completed.horizon.lsn.text

    rebuilt = rebuild(
        delta_rows(table.bronze),
        _changes(server, name),
        key=("id",),
        snapshot=completed.snapshot.text,
        end=end,
    )
    source = server.execute(f"SELECT {', '.join(COLUMNS)} FROM dbo.{name}")
    assert rebuilt == {(row[0],): dict(zip(COLUMNS, row, strict=True)) for row in source}


def _snapshot_while_writing(
    server: EmbeddedSqlServer, table: MssqlCdcTable, writer: Writer, rng: random.Random
) -> CompletedSnapshot:
    def connect() -> Any:
        return MssqlCdcHook("rounds").session()

    def attempt(task_id: str, index: int = -1) -> Attempt:
        return Attempt("rounds", "run", task_id, index)

    writer.some()
    request = PlanRequest(
        table, attempt("plan"), max_ranges=rng.randrange(1, 9), rows_per_range=rng.randrange(1, 40)
    )
    planned = plan_snapshot(request, connect=connect)
    rng.shuffle(planned)
    outcomes = []
    for item in planned:
        writer.some()
        with _change_during(server, writer, rng):
            outcomes.append(read_range(table, item, attempt=attempt("read", item.index), connect=connect))
    rng.shuffle(outcomes)
    writer.some()
    return complete_snapshot(table, outcomes, attempt=attempt("complete"), connect=connect)


class _change_during:
    """A change is committed between the stamp and the rows, or among the rows."""

    def __init__(self, server: EmbeddedSqlServer, writer: Writer, rng: random.Random) -> None:
        self.server = server
        reading: Callable[..., Any] = server.faults.run
        after = rng.choice([None, 0, 1, 5])
        reading(r"SELECT(?s:.*)\[amount\](?s:.*)FROM \[dbo\]", writer.change, after_rows=after)

    def __enter__(self) -> None: ...

    def __exit__(self, *exc: object) -> None:
        self.server.faults.clear()


def _changes(server: EmbeddedSqlServer, name: str) -> list[dict[str, Any]]:
    metadata = ("_start_lsn", "_command_id", "_seqval", "_operation")
    rows = server.execute(
        "SELECT CONVERT(varchar(22), [__$start_lsn], 1), [__$command_id], "
        f"CONVERT(varchar(22), [__$seqval], 1), [__$operation], {', '.join(COLUMNS)} FROM cdc.dbo_{name}_CT"
    )
    return [dict(zip((*metadata, *COLUMNS), row, strict=True)) for row in rows]
