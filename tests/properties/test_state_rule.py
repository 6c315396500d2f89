"""Small histories in which keys pass from row to row, played through merges and rebuilds of real tables.

Thousands of histories, each of a few rows under a key of its own kind, share one bronze. They are
written down as CDC may: pairs in the table's own order, deletes and inserts, inserts before deletes as in
old builds. The snapshot reads each row at its own moment, so that a key may be in it twice or not at all.
Windows come again, are repaired, rearranged; past the horizon silver is the table, after every merge, and so
is a silver that is built from nothing. Nothing here knows how the package works out a state.
"""

from __future__ import annotations

import os
import random
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from airflow_provider_mssql_cdc.lake.changes import StagedWindow
from airflow_provider_mssql_cdc.lake.repairs import replace_changes
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import read_changes_state
from airflow_provider_mssql_cdc.model.capture import Window
from airflow_provider_mssql_cdc.model.plan import StagedFile
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from tests.support.silver_world import IDENTITY, Row, World, change, lsn, snapshot_row

EXAMPLES = int(os.environ.get("MSSQL_CDC_EXAMPLES", "0"))
HISTORIES = max(2000, EXAMPLES)
TOGETHER = 1000
COMMITS, CODES = 9, 6

COLUMNS = (
    LakeColumn("history", "history", "int64", "[history] int"),
    LakeColumn("code", "code", "int64", "[code] int"),
    LakeColumn("id", "id", "int64", "[id] int"),
    LakeColumn("v", "v", "int32", "[v] int"),
    LakeColumn("doc", "doc", "string", "[doc] nvarchar(max)"),
)


@dataclass(slots=True)
class Held:
    """A row of the source, which is clustered by the row's number; codes are unique after each statement."""

    code: int
    v: int
    doc: str


@dataclass(slots=True)
class History:
    """A few rows that live through some transactions; what CDC records of each, and the rows after each."""

    number: int
    rng: random.Random
    rows: dict[int, Held] = field(default_factory=dict)
    recorded: list[list[Row]] = field(default_factory=lambda: [[]])
    states: list[dict[int, Held]] = field(default_factory=list)
    _commit: list[Row] = field(default_factory=list)
    _next: int = 1

    def play(self) -> None:
        for _ in range(self.rng.randrange(CODES)):
            self._insert(record=False)
        self.states.append(self._copy())
        for commit in range(1, COMMITS + 1):
            self._commit = []
            commands = self.rng.choice(["none", "statement", "row"])
            for statement in range(self.rng.randrange(1, 5)):
                self._statement(commit, statement + 1, commands)
            self.recorded.append(self._commit)
            self.states.append(self._copy())

    def _copy(self) -> dict[int, Held]:
        return {id_: Held(row.code, row.v, row.doc) for id_, row in self.rows.items()}

    # -- statements

    def _statement(self, commit: int, statement: int, commands: str) -> None:
        first = len(self._commit)
        self.rng.choice(
            [self._insert, self._delete, self._update, self._move, self._move, self._swap, self._replace]
        )()
        for place, row in enumerate(self._commit[first:], start=first):
            command = {"none": None, "statement": statement, "row": place + 1}[commands]
            seq = row.pop("pair", place)
            own = change(commit, row.pop("operation"), row, seq=seq + 1, command=command)
            if commands == "row" and seq != place:
                own["_command_id"] = self._commit[seq]["_command_id"]
            self._commit[place] = own

    def _insert(self, *, record: bool = True) -> None:
        free = sorted(set(range(CODES)) - {row.code for row in self.rows.values()})
        if not free:
            return
        self._next += 1
        self.rows[self._next] = Held(self.rng.choice(free), self.rng.randrange(2), self._text())
        if record:
            self._add(2, self._next, self.rows[self._next])

    def _delete(self) -> None:
        for id_ in [id_ for id_ in self.rows if self.rng.random() < 0.4]:
            self._add(1, id_, self.rows.pop(id_))

    def _update(self) -> None:
        """In place, of the value, of the large object, or of nothing."""
        for id_ in [id_ for id_ in self.rows if self.rng.random() < 0.5]:
            old = self.rows[id_]
            self.rows[id_] = Held(
                old.code,
                self.rng.randrange(2),
                self._text() if self.rng.random() < 0.3 else old.doc,
            )
            self._write_down([(id_, old, self.rows[id_])], self.rng.choice(["images", "images", "pairs"]))

    def _replace(self) -> None:
        """A code goes from a row that is deleted to one that is inserted."""
        if not self.rows:
            return
        id_ = self.rng.choice(sorted(self.rows))
        old = self.rows.pop(id_)
        self._add(1, id_, old)
        self._next += 1
        self.rows[self._next] = Held(old.code, self.rng.randrange(2), self._text())
        self._add(2, self._next, self.rows[self._next])
        if self.rng.random() < 0.3:
            self._add(1, self._next, self.rows.pop(self._next))

    def _swap(self) -> None:
        if len(self.rows) > 1:
            one, other = self.rng.sample(sorted(self.rows), 2)
            self._recode({one: self.rows[other].code, other: self.rows[one].code})

    def _move(self) -> None:
        """Codes shift by one where nothing is in the way, or go anywhere that is free at the end."""
        moving = [id_ for id_ in sorted(self.rows) if self.rng.random() < 0.8]
        staying = {row.code for id_, row in self.rows.items() if id_ not in moving}
        shifted = {id_: (self.rows[id_].code + 1) % CODES for id_ in moving}
        if self.rng.random() < 0.5 or staying & set(shifted.values()):
            free = sorted(set(range(CODES)) - staying)
            shifted = dict(zip(moving, self.rng.sample(free, len(moving)), strict=True))
        self._recode(shifted)

    def _recode(self, codes: dict[int, int]) -> None:
        order = sorted(codes) if self.rng.random() < 0.6 else self.rng.sample(sorted(codes), len(codes))
        moves = [
            (id_, self.rows[id_], Held(codes[id_], self.rows[id_].v, self.rows[id_].doc)) for id_ in order
        ]
        self.rows.update({id_: new for id_, _, new in moves})
        self._write_down(moves, self.rng.choice(["images", "pairs", "deletes first", "inserts first"]))

    # -- what is recorded

    def _write_down(self, moves: list[tuple[int, Held, Held]], how: str) -> None:
        if how in ("images", "pairs"):
            before, after = (3, 4) if how == "images" else (1, 2)
            for id_, old, new in moves:
                shown = Held(old.code, old.v, old.doc if how == "pairs" or old.doc != new.doc else "")
                self._add(before, id_, shown)
                self._add(after, id_, new, pair=self.rng.random() < 0.7)
            return
        # A delete and an insert of one key are collapsed into an update before they are logged (the Split,
        # Sort and Collapse operators of a plan).
        collapsed = [move for move in moves if move[1].code == move[2].code]
        self._write_down(collapsed, "images")
        moves = [move for move in moves if move not in collapsed]
        deletes = [(1, id_, old) for id_, old, _ in moves]
        inserts = [(2, id_, new) for id_, _, new in moves]
        for entry in deletes + inserts if how == "deletes first" else inserts + deletes:
            self._add(*entry)

    def _add(self, operation: int, id_: int, row: Held, *, pair: bool = False) -> None:
        """A before-image lacks large objects that did not change; images of a pair may share a sequence."""
        recorded: Row = {"operation": operation, **self.values(id_, row)}
        if pair:
            recorded["pair"] = len(self._commit) - 1
        self._commit.append(recorded)

    def values(self, id_: int, row: Held) -> Row:
        return {"history": self.number, "code": row.code, "id": id_, "v": row.v, "doc": row.doc or None}

    def _text(self) -> str:
        return self.rng.choice(["a", "b", "c"])

    def expected(self, commit: int) -> dict[tuple[int, int], tuple[int, int, str]]:
        return {(self.number, row.code): (id_, row.v, row.doc) for id_, row in self.states[commit].items()}


class Played:
    """Many histories in one bronze, and silver beside it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(f"state rule {seed}")
        self.world = World(folder, columns=COLUMNS, key=("history", "code"))
        self.histories = [History(number, random.Random(f"{seed} {number}")) for number in range(TOGETHER)]
        for history in self.histories:
            history.play()
        self.snapshot = self.rng.randrange(1, 3)
        self.horizon = self.rng.randrange(self.snapshot, COMMITS - 1)
        self.reached = self.snapshot

    def load(self) -> None:
        """Each row is read at a moment of its own, later rows later; chunks have stamps of their own."""
        chunked = self.rng.random() < 0.5
        rows = [row for history in self.histories for row in self._read(history, chunked=chunked)]
        self.rng.shuffle(rows)
        self.world.snapshot(self.snapshot, rows, row_group=self.rng.choice([None, 500]))

    def _read(self, history: History, *, chunked: bool) -> list[Row]:
        ids = sorted({id_ for state in history.states for id_ in state})
        moments = sorted(history.rng.randrange(self.snapshot, self.horizon + 1) for _ in ids)
        rows = []
        for at, (id_, moment) in enumerate(zip(ids, moments, strict=True)):
            row = history.states[moment].get(id_)
            stamp = min(moments[at - at % 3 :]) if chunked else self.snapshot
            if row is not None:
                values, chunk = history.values(id_, row), at // 3 if chunked else None
                rows.append(snapshot_row(stamp, values, snapshot=self.snapshot, chunk=chunk))
        return rows

    def rows_of(self, first: int, last: int) -> list[Row]:
        rows = [
            row
            for history in self.histories
            for commit in history.recorded[first : last + 1]
            for row in commit
        ]
        self.rng.shuffle(rows)
        return rows

    def go_on(self) -> None:
        """The next window, and whatever else happens to bronze."""
        first, last = self.reached + 1, self.rng.randrange(self.reached + 1, COMMITS + 1)
        self.world.changes(self.rows_of(first, last), until=last, statistics=self.rng.random() < 0.8)
        self.reached = last
        if self.rng.random() < 0.5:
            again = self.rng.randrange(1, self.reached + 1)
            self.world.changes(self.rows_of(again, self.rng.randrange(again, self.reached + 1)))
        if self.rng.random() < 0.3:
            self.repair(self.rng.randrange(1, self.reached + 1))
        if self.rng.random() < 0.3:
            self.world.optimize(self.rng.choice([self.world.bronze_at, self.world.silver_at]))

    def repair(self, first: int) -> None:
        bronze, last = self.world.bronze, self.rng.randrange(first, self.reached + 1)
        assert bronze.state.coverage is not None
        table = self.world.table(self.rows_of(first, last))
        path = Path(bronze.location.uri, f"repair-{secrets.token_hex(4)}-0.parquet")
        pq.write_table(table, path)
        window = Window(lsn(first - 1) if first > 1 else lsn(1).decremented(), lsn(last))
        files = [StagedFile(path.name, path.stat().st_size, table.num_rows)] if table.num_rows else []
        replace_changes(
            bronze,
            StagedWindow(window, files, read_changes_state(bronze.table).batch + 1),
            identity=IDENTITY,
            prefix=path.stem,
            position=bronze.state.coverage.changes,
        )

    def check(self) -> None:
        """Past the horizon silver is the table as of the newest commit that bronze has."""
        if self.reached < self.horizon:
            return
        held = {key: (row["id"], row["v"], row["doc"]) for key, row in self.world.rows().items()}
        expected: dict[Any, Any] = {}
        for history in self.histories:
            expected |= history.expected(self.reached)
        differing = sorted({key[0] for key, _ in held.items() ^ expected.items()})
        assert not differing, f"{len(differing)} histories differ at {self.reached}, for one {differing[0]}"

    def build_anew(self) -> None:
        self.world.silver_at = TableLocation(str(self.folder / f"anew-{self.reached}"))
        assert self.world.merge().rebuilt


@pytest.mark.parametrize("seed", range(-(-HISTORIES // TOGETHER)))
def test_silver_is_the_table_after_every_history(tmp_path: Path, seed: int) -> None:
    played = Played(tmp_path, seed)
    if played.rng.random() < 0.5:
        played.world.snapshot(played.snapshot, [])
        played.world.changes(played.rows_of(1, played.snapshot), until=played.snapshot)
    played.load()
    played.world.merge()
    played.check()
    while played.reached < COMMITS:
        played.go_on()
        played.world.merge()
        played.check()
    DeltaTable(played.world.bronze_at.uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    played.world.merge()
    played.check()
    played.build_anew()
    played.check()
