"""One run of all that stores or returns something, and what it left; what varies is written as ``<...>``.

LSNs, ids, numbers and names that differ from run to run become placeholders; the rest is what users' tables,
DAGs and dashboards rely on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from airflow.sdk import DAG, Param

from airflow_provider_mssql_cdc import (
    MssqlCdcDatabase,
    MssqlCdcTable,
    mssql_cdc_bootstrap,
    mssql_cdc_pipeline,
)
from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import RetentionGap
from airflow_provider_mssql_cdc.operators import (
    MssqlCdcAbandonOperator,
    MssqlCdcChangesOperator,
    MssqlCdcMergeOperator,
    MssqlCdcStatusOperator,
    MssqlCdcUpkeepOperator,
)
from airflow_provider_mssql_cdc.sensors import MssqlCdcCaptureSensor
from tests.dags.harness import pushed, returned, run
from tests.support.changes_world import ChangesWorld
from tests.support.delta_rows import delta_rows

BEGIN = datetime(2026, 5, 11, 9, 30, tzinfo=UTC)
# In this order: a random part may look like a number.
_VARYING = (
    (re.compile(r"0x[0-9A-F]{20}"), "<lsn>"),
    (re.compile(r"(?<=-)([rw])\d{5}(?=-)|(?<=-)(c)\d{6}(?=-)|(?<=-)([av])\d{1,2}(?=-)"), r"\1\2\3<n>"),
    (re.compile(r"(?<![\w<])[0-9a-f]{6,}(?![\w>])"), "<id>"),
    (re.compile(r"(?<=[-.])\d{1,5}(?=[-.]|$)"), "<n>"),
)


def pattern(name: str) -> str:
    """A name with what varies from run to run removed."""
    for varying, placeholder in _VARYING:
        name = varying.sub(placeholder, name)
    return name


class StoredWorld:
    """A source table loaded whole, changed, repaired, merged, altered and lost; another one in chunks."""

    def __init__(self, server: EmbeddedSqlServer, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.xcoms: dict[str, list[Any]] = {}
        server.clock.freeze(BEGIN)
        orders = ChangesWorld(server, folder)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", orders.connection)
        orders.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        self._load_and_follow(orders)
        self._alter(orders)
        self._lose_and_load_again(orders)
        self._keep_up(orders)
        lines = ChangesWorld(server, folder, name="lines")
        lines.insert(*range(1, 9))
        server.enable_cdc("dbo.lines")
        self._chunks(lines)
        self._pipeline(lines)

    @property
    def tables(self) -> dict[str, Path]:
        """The Delta tables by what they are."""
        return {
            "bronze": self.folder / "bronze/orders",
            "bronze, chunked": self.folder / "bronze/lines",
            "plans": self.folder / "bronze/lines_plans",
            "silver": self.folder / "silver/orders",
            "facts": self.folder / "facts",
        }

    # -- what happens

    def _load_and_follow(self, world: ChangesWorld) -> None:
        world.tick()
        dag = self._whole(world.table)
        self._run(dag, "orders.plan", "orders.read", "orders.complete", "changes", "merge", "passed")
        world.insert(4, 5)
        world.execute("UPDATE dbo.orders SET name = 'other' WHERE id = 2")
        world.execute("DELETE FROM dbo.orders WHERE id = 3")
        world.tick()
        self._run(dag, "changes", "merge")
        world.tick(3600)
        world.interval(BEGIN, BEGIN + timedelta(minutes=20))

    def _alter(self, world: ChangesWorld) -> None:
        world.execute("ALTER TABLE dbo.orders ADD note nvarchar(20) NULL")
        world.server.enable_cdc("dbo.orders", capture_instance="dbo_orders_v2")
        world.insert(6)
        world.table = replace(world.table, capture_instance="dbo_orders_v2")
        world.changes(accept_nulls=True)

    def _lose_and_load_again(self, world: ChangesWorld) -> None:
        world.tick(3600)
        world.insert(7)
        newest = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")[0][0]
        world.insert(8)
        world.server.cleanup(up_to=newest)
        with pytest.raises(RetentionGap):
            world.changes()
        world.tick(60)
        self._run(self._whole(world.table), "orders.plan", resnapshot=True)

    def _keep_up(self, world: ChangesWorld) -> None:
        """Small files are written together, and then bronze is folded."""
        silver = world.table.bronze.replace("/bronze/", "/silver/")
        for fold in (False, True):
            for number in (1, 2):
                world.insert(10 * (1 + fold) + number)
                world.tick()
                world.changes()
            with DAG(dag_id="keeps_up", schedule=None) as dag:
                merge = MssqlCdcMergeOperator(task_id="merge", table=world.table, silver=silver)
                merge >> MssqlCdcUpkeepOperator(
                    task_id="upkeep",
                    table=world.table,
                    silver=silver,
                    fold=fold,
                    fold_share=0.0,
                    fold_after_hours=0,
                    facts_keep_days=1,
                )
            self._run(dag, "upkeep")

    def _chunks(self, world: ChangesWorld) -> None:
        dag = self._chunked(world.table, max_waves=1)
        self._run(dag, "lines.plan", "lines.chunk", "status")
        opened = world.state.open
        assert opened is not None
        with DAG(dag_id="gives_up", schedule=None) as giving_up:
            MssqlCdcAbandonOperator(
                task_id="abandon", table=world.table, snapshot=opened.text, delete_rows=True
            )
        self._run(giving_up, "abandon")
        world.tick(60)
        self._run(self._chunked(world.table), "lines.complete", "status")

    def _pipeline(self, world: ChangesWorld) -> None:
        """A database of a table in ranges, a small one, and a pattern that matches nothing."""
        for name in ("parts", "small"):
            world.execute(f"CREATE TABLE dbo.{name} (id int NOT NULL PRIMARY KEY)")
            world.execute(f"INSERT INTO dbo.{name} VALUES (1), (2), (3), (4)")
            world.server.enable_cdc(f"dbo.{name}")
        database = MssqlCdcDatabase(
            mssql_conn_id=world.table.mssql_conn_id,
            include=("dbo.parts", "dbo.small", "nothing.*"),
            bronze=f"{self.folder}/pipeline/bronze/{{schema}}/{{table}}",
            silver=f"{self.folder}/pipeline/silver/{{schema}}/{{table}}",
            facts=f"{self.folder}/pipeline/facts",
            tables={"dbo.parts": {"rows_per_range": 2}},
        )
        with DAG(dag_id="pipeline", schedule=None) as dag:
            mssql_cdc_pipeline(group_id="erp", database=database, max_failed_tables=1, follow_tasks=1)
        dag_run = run(dag)
        for task, index in (("plan", -1), ("read", 0), ("read", 2), ("complete", 0), ("report", -1)):
            self.xcoms.setdefault(f"erp.{task}", []).append(returned(dag_run, f"erp.{task}", index))
        for key in ("summary", "complete_0", "follow_0"):
            self.xcoms[f"erp.plan, {key}"] = [pushed(dag_run, "erp.plan", key)]
        self.xcoms["erp.follow"] = [returned(run(dag), "erp.follow", 0)]

    def _whole(self, table: MssqlCdcTable) -> DAG:
        with DAG(dag_id="whole", schedule=None, params={"resnapshot": Param(False, type="boolean")}) as dag:
            load = mssql_cdc_bootstrap(
                group_id="orders",
                table=table,
                rows_per_range=2,
                resnapshot="{{ params.resnapshot }}",
                retry_delay=0.1,
            )
            changes = MssqlCdcChangesOperator(task_id="changes", table=table)
            silver = table.bronze.replace("/bronze/", "/silver/")
            merge = MssqlCdcMergeOperator(task_id="merge", table=table, silver=silver)
            passed = MssqlCdcCaptureSensor(
                task_id="passed",
                table=table,
                time=(BEGIN - timedelta(hours=1)).isoformat(),
                poke_interval=0.05,
            )
            load >> changes >> merge >> passed
        return dag

    def _chunked(self, table: MssqlCdcTable, **arguments: Any) -> DAG:
        with DAG(dag_id="chunked", schedule=None) as dag:
            load = mssql_cdc_bootstrap(
                group_id="lines",
                table=table,
                mode="chunked",
                chunk_rows=2,
                chunks_per_wave=1,
                retry_delay=0.1,
                **arguments,
            )
            status = MssqlCdcStatusOperator(task_id="status", table=table, trigger_rule="all_done")
            load >> status
        return dag

    def _run(self, dag: DAG, *tasks: str, resnapshot: bool = False) -> None:
        """Run it, and keep what these tasks returned; of mapped ones the first."""
        dag_run = run(dag, conf={"resnapshot": True} if resnapshot else None)
        for task in tasks:
            mapped = task.endswith((".read", ".chunk"))
            value = returned(dag_run, task, 0 if mapped else -1)
            assert value is not None, f"{dag.dag_id}: {task} returned nothing"
            self.xcoms.setdefault(task, []).append(value)

    # -- what is left

    def actions(self, table: str, kind: str) -> list[dict[str, Any]]:
        """Actions of one kind in a table's log, in order."""
        logs = sorted((self.tables[table] / "_delta_log").glob("*.json"))
        lines = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        return [line[kind] for line in lines if kind in line]

    def app_ids(self, table: str) -> set[str]:
        """Of all transactions; what Airflow calls a run is ``<run>``."""
        ids = {action["appId"] for action in self.actions(table, "txn")}
        runs = re.compile(r"#run\..+(?=\.(hi|lo)$)")
        return {self._without_paths(pattern(runs.sub("#run.<run>", app_id))) for app_id in ids}

    def file_names(self, table: str) -> set[str]:
        """Of the data files, in their folder, by who staged them; without delta-rs' own."""
        names = {pattern(action["path"]) for action in self.actions(table, "add")}
        return {name for name in names if not name.startswith("part-")}

    def commit_info(self, table: str) -> set[str]:
        """Our own entries of commits; of the one that names the event, the events."""
        found = set()
        for info in self.actions(table, "commitInfo"):
            found |= {f"userMetadata.{name}" for name in json.loads(info.get("userMetadata", "{}"))}
            found |= {name for name in info if name.startswith("mssql_cdc.")}
            found |= {f"mssql_cdc.event={info[name]}" for name in info if name == "mssql_cdc.event"}
        return found

    def properties(self, table: str) -> set[str]:
        configuration = self.actions(table, "metaData")[-1]["configuration"]
        return {f"{name}={value}" for name, value in configuration.items()}

    def described(self, table: str) -> set[str]:
        """Name and description, as catalogs show them."""
        metadata = self.actions(table, "metaData")[0]
        return {f"name: {metadata['name']}", f"description: {self._without_paths(metadata['description'])}"}

    def columns(self, table: str) -> set[str]:
        """Name, Delta type, whether it may be NULL, comment; and their order."""
        fields = json.loads(self.actions(table, "metaData")[-1]["schemaString"])["fields"]
        lines = {
            f"{field['name']} {field['type']}{'' if field['nullable'] else ' NOT NULL'}: "
            f"{field['metadata'].get('comment', '')}"
            for field in fields
        }
        return {*lines, "in this order: " + ", ".join(field["name"] for field in fields)}

    def footer_keys(self, table: str) -> set[str]:
        """Our own key-value metadata of the data files."""
        files = [file for file in self.tables[table].glob("*.parquet") if not file.name.startswith("part-")]
        keys = {key.decode() for file in files for key in pq.read_metadata(file).metadata or {}}
        return {key for key in keys if key.startswith("mssql_cdc")}

    def events(self) -> set[str]:
        """Events of the facts table, each with the entries that its ``detail`` has in some row."""
        found: set[str] = set()
        for row in delta_rows(self.folder / "facts"):
            found |= {row["event"], *(f"{row['event']}.{name}" for name in json.loads(row["detail"] or "{}"))}
        return found

    def returned(self) -> set[str]:
        """Each value that a task returned, by its place in it and its type."""
        return {line for task, values in self.xcoms.items() for one in values for line in places(task, one)}

    def sections(self) -> dict[str, set[str]]:
        """All of it, line by line, as the golden file has it."""
        found = {
            f"{table}: {what}": getattr(self, kind)(table)
            for table in self.tables
            for what, kind in _OF_A_TABLE.items()
        }
        found |= {"facts: events and their detail": self.events(), "XCom: what tasks return": self.returned()}
        return {section: lines for section, lines in found.items() if lines}

    def _without_paths(self, text: str) -> str:
        return text.replace(str(self.folder), "<lake>")


_OF_A_TABLE = {
    "app ids": "app_ids",
    "file names": "file_names",
    "entries of commits": "commit_info",
    "table properties": "properties",
    "name and description": "described",
    "columns": "columns",
    "entries of Parquet footers": "footer_keys",
}


def places(place: str, value: Any) -> Iterator[str]:
    """A JSON value as lines of place and type: ``merge.rows int``, ``read.files[][] str``."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from places(f"{place}.{name}", item)
    elif isinstance(value, list):
        yield f"{place} list"
        for item in value:
            yield from places(f"{place}[]", item)
    elif value is not None:
        yield f"{place} {type(value).__name__}"
    else:
        yield f"{place} null"
