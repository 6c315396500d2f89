"""Bronze and silver without a server: rows are put into bronze as files, and silver is kept from them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Transaction
from deltalake.transaction import AddAction

from airflow_provider_mssql_cdc.lake.add_actions import delta_statistics
from airflow_provider_mssql_cdc.lake.bronze import Bronze, open_existing, open_or_create
from airflow_provider_mssql_cdc.lake.silver.merge import MergeCommit, MergeRequest, update_silver
from airflow_provider_mssql_cdc.lake.silver.table import Silver, bronze_number, create_silver, open_silver
from airflow_provider_mssql_cdc.lake.storage import TableLocation
from airflow_provider_mssql_cdc.lake.transactions import SNAPSHOT, coverage_transactions, lsn_transactions
from airflow_provider_mssql_cdc.model.lsn import Lsn
from airflow_provider_mssql_cdc.model.source_table import LakeColumn
from airflow_provider_mssql_cdc.model.state import Coverage, SourceIdentity
from airflow_provider_mssql_cdc.planning.merge import NoSnapshot, decide_merge
from tests.support.delta_rows import delta_rows
from tests.support.rebuild import rebuild

IDENTITY = SourceIdentity("erp", "sales", "dbo", "orders")
COLUMNS = (
    LakeColumn("id", "id", "int64", "[id] bigint"),
    LakeColumn("v", "v", "string", "[v] nvarchar(40)"),
)
Row = dict[str, Any]


def lsn(number: int) -> Lsn:
    """An LSN of which both halves count."""
    return Lsn((number << 40) | (0xFF_FFFF_FFFF - number))


def snapshot_row(stamp: int, values: Row, *, snapshot: int | None = None, chunk: int | None = None) -> Row:
    return {
        **values,
        "_capture_instance": "dbo_orders",
        "_start_lsn": lsn(stamp).text,
        "_operation": 0,
        "_snapshot": lsn(stamp if snapshot is None else snapshot).text,
        "_chunk": chunk,
    }


def change(
    number: int, operation: int, values: Row, *, seq: int = 1, command: int | None = 1, batch: int = 1
) -> Row:
    """A change row; ``number`` says which commit, ``seq`` where in it."""
    return {
        **values,
        "_capture_instance": "dbo_orders",
        "_start_lsn": lsn(number).text,
        "_seqval": f"0x{seq:020X}",
        "_operation": operation,
        "_command_id": command,
        "_batch_id": batch,
    }


class World:
    """One bronze and one silver in a folder."""

    def __init__(
        self, folder: Path, *, columns: Sequence[LakeColumn] = COLUMNS, key: Sequence[str] = ("id",)
    ) -> None:
        self.key, self.columns = tuple(key), tuple(columns)
        self.bronze_at = TableLocation(str(folder / "bronze"))
        self.silver_at = TableLocation(str(folder / "silver"))
        open_or_create(self.bronze_at, IDENTITY, columns)

    @property
    def bronze(self) -> Bronze:
        return open_existing(self.bronze_at)

    @property
    def silver(self) -> Silver:
        silver = open_silver(self.silver_at)
        assert silver is not None
        return silver

    def snapshot(
        self, number: int, rows: Sequence[Row], *, base: int | None = None, row_group: int | None = None
    ) -> None:
        """Complete snapshot S in one commit; the first one begins coverage, ``base`` begins it again."""
        bronze = self.bronze
        transactions = lsn_transactions(SNAPSHOT, lsn(number))
        if bronze.state.coverage is None or base is not None:
            begun = lsn(number if base is None else base)
            transactions += coverage_transactions(Coverage(begun, begun))
        self.append(rows, transactions=transactions, row_group=row_group)

    def changes(self, rows: Sequence[Row], *, until: int | None = None, statistics: bool = True) -> None:
        """Change rows in one commit; coverage is extended to ``until``, or to the newest of them."""
        coverage = self.bronze.state.coverage
        assert coverage is not None
        newest = max((Lsn.parse(row["_start_lsn"]) for row in rows), default=coverage.changes)
        reached = max(coverage.changes, newest if until is None else lsn(until))
        transactions = coverage_transactions(Coverage(coverage.base, reached))
        self.append(rows, transactions=transactions, statistics=statistics)

    def append(
        self,
        rows: Sequence[Row],
        *,
        transactions: Sequence[Transaction] = (),
        statistics: bool = True,
        row_group: int | None = None,
    ) -> None:
        self.append_table(
            self.table(rows), transactions=transactions, statistics=statistics, row_group=row_group
        )

    def table(self, rows: Sequence[Row]) -> pa.Table:
        schema = pa.schema([field.with_nullable(True) for field in self.bronze.schema])
        return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)

    def append_table(
        self,
        table: pa.Table,
        *,
        transactions: Sequence[Transaction] = (),
        statistics: bool = True,
        row_group: int | None = None,
        removed: Sequence[Any] = (),
    ) -> None:
        """Rows in one file and one commit."""
        bronze = self.bronze
        files = []
        if table.num_rows:
            name = f"{secrets.token_hex(6)}.parquet"
            path = Path(bronze.location.uri) / name
            pq.write_table(table, path, row_group_size=row_group)
            told = delta_statistics(pq.read_metadata(path), bronze.statistics_columns)
            stats = told if statistics else f'{{"numRecords": {table.num_rows}}}'
            files.append(AddAction(name, path.stat().st_size, {}, 0, True, stats))
        bronze.commit(
            [*removed, *files], transactions=transactions, event="changes", user_metadata={}, overtaken=False
        )

    def merge(self, *, confirm_empty: Callable[[], None] = lambda: None) -> MergeCommit:
        """Keep silver from the newest version of bronze."""
        bronze = self.bronze
        silver = open_silver(self.silver_at) or create_silver(self.silver_at, bronze, key=self.key)
        return self.merge_with(silver, bronze, confirm_empty=confirm_empty)

    def merge_with(
        self, silver: Silver, bronze: Bronze, *, confirm_empty: Callable[[], None] = lambda: None
    ) -> MergeCommit:
        """The same with handles that may be behind."""
        decision = decide_merge(
            silver.position,
            bronze.state,
            bronze=bronze_number(bronze),
            damage=silver.damage,
            fold=bronze.fold,
        )
        assert not isinstance(decision, NoSnapshot)
        assert bronze.state.snapshot is not None
        request = MergeRequest(
            silver,
            bronze,
            bronze.state.snapshot,
            decided_on=silver.position,
            prefix=f"silver-{secrets.token_hex(4)}",
            run_id="manual__1",
        )
        return update_silver(request, decision, confirm_empty=confirm_empty)

    def rows(self) -> dict[Any, Row]:
        """Silver's rows by key, without its own columns; a key that is there twice is an error."""
        rows = delta_rows(self.silver_at.uri)
        by_key = {tuple(row[name] for name in self.key): row for row in rows}
        assert len(by_key) == len(rows), "a key is there twice"
        return by_key

    def values(self) -> dict[Any, Any]:
        """``{key: v}`` for tables of a key and ``v``."""
        plain = len(self.key) == 1
        return {key[0] if plain else key: row["v"] for key, row in self.rows().items()}

    def expected(self) -> dict[tuple[Any, ...], Row]:
        """What the rule of the guarantee makes of bronze as it is."""
        snapshot = self.bronze.state.snapshot
        assert snapshot is not None
        rows = delta_rows(self.bronze_at.uri)
        end = max([snapshot.text, *(row["_start_lsn"] for row in rows)])
        changes = [row for row in rows if row["_operation"] != 0]
        return rebuild(rows, changes, key=self.key, snapshot=snapshot.text, end=end)

    def check(self) -> None:
        """Silver is what the rule makes of bronze, row by row."""
        built = {
            key: {name: value for name, value in row.items() if not name.startswith("_")}
            for key, row in self.rows().items()
        }
        assert built == self.expected()

    def optimize(self, what: TableLocation) -> None:
        DeltaTable(what.uri).optimize.compact()
