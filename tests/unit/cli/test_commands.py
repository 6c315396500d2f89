"""``airflow mssql-cdc`` as Airflow's own parser runs it, on tables that real loads wrote."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.errors import RetentionGap
from tests.support.changes_world import ChangesWorld
from tests.support.chunked import ChunkedLoad


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangesWorld]:
    with EmbeddedSqlServer(database="shop") as server:
        world = ChangesWorld(server, tmp_path)
        monkeypatch.setenv("AIRFLOW_CONN_ERP", world.connection)
        world.insert(1, 2, 3)
        server.enable_cdc("dbo.orders")
        yield world


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of ``airflow mssql-cdc``, in this process."""
    from airflow.cli.cli_parser import get_parser

    capsys.readouterr()
    args = get_parser().parse_args(["mssql-cdc", *arguments])
    with pytest.raises(SystemExit) as ended:
        args.func(args)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


def json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code, out, err = run(capsys, *arguments, "--json")
    assert out, err
    return code, json.loads(out)


def test_status_shows_a_table_that_follows_and_ends_with_zero(
    world: ChangesWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.bootstrap()
    world.insert(4)
    world.server.capture()
    world.changes()
    code, [found] = json_of(capsys, "status", "--facts", world.table.facts)
    assert code == 0
    assert (found["state"], found["snapshot_rows"], found["position"]) == ("following", 3, world.position())
    code, out, _ = run(capsys, "status", "--facts", world.table.facts)
    header, line = out.splitlines()
    assert header.split()[:2] == ["source", "state"]
    assert "following" in line


def test_status_ends_with_one_when_changes_were_lost(
    world: ChangesWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.bootstrap()
    world.insert(4, 5)
    world.server.capture()
    [(newest,)] = world.execute("SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)")
    world.server.cleanup(up_to=newest)
    with pytest.raises(RetentionGap):
        world.changes()
    code, [found] = json_of(capsys, "status", "--facts", world.table.facts)
    assert (code, found["state"]) == (1, "gap")


def test_status_counts_the_waves_of_a_chunked_load_and_abandon_ends_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with EmbeddedSqlServer(database="shop") as server:
        server.execute("CREATE TABLE dbo.lines (id bigint NOT NULL PRIMARY KEY, v int NULL)")
        for number in range(40):
            server.execute("INSERT INTO dbo.lines (id, v) VALUES (?, ?)", number, number)
        server.enable_cdc("dbo.lines")
        load = ChunkedLoad(server, tmp_path, instance="dbo_lines")
        waves = load.planned(chunk_rows=10)
        load.chunk(waves[0])
        _, [found] = json_of(capsys, "status", "--facts", load.table.facts)
        assert (found["state"], found["parts_done"], found["parts"]) == ("loading", 1, len(waves))
        arguments = ["abandon", "--bronze", load.table.bronze, "--snapshot", found["loading"]]
        code, [done] = json_of(capsys, *arguments, "--delete-rows")
        assert (code, done["snapshot"], done["rows"] > 0) == (0, found["loading"], True)
        code, [done] = json_of(capsys, *arguments)
        assert (code, done["rows"]) == (0, 0), "what an earlier call gave up is named again"


def test_facts_are_listed_newest_first(world: ChangesWorld, capsys: pytest.CaptureFixture[str]) -> None:
    world.bootstrap()
    _, rows = json_of(capsys, "facts", "--facts", world.table.facts)
    assert [row["event"] for row in rows] == ["bootstrap", "snapshot_plan"]
    _, rows = json_of(capsys, "facts", "--facts", world.table.facts, "--limit", "1")
    assert [row["event"] for row in rows] == ["bootstrap"]
    _, rows = json_of(capsys, "facts", "--facts", world.table.facts, "--event", "snapshot_plan")
    assert [row["event"] for row in rows] == ["snapshot_plan"]
    for text, count in {"ORDERS": 2, "nothing": 0, "o' OR 'a' = 'a": 0, "%": 0}.items():
        _, rows = json_of(capsys, "facts", "--facts", world.table.facts, "--source", text)
        assert len(rows) == count, text


def test_tables_and_check_say_what_a_login_sees(
    world: ChangesWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    world.execute("CREATE TABLE dbo.heap (a int NULL)")
    world.server.enable_cdc("dbo.heap")
    world.execute("CREATE TABLE dbo.odd (id int NOT NULL PRIMARY KEY, _chunk int NULL)")
    world.server.enable_cdc("dbo.odd")
    code, rows = json_of(capsys, "tables", "--conn-id", "erp")
    assert code == 0
    assert [row["capture_instance"] for row in rows] == ["dbo_heap", "dbo_odd", "dbo_orders"]
    code, rows = json_of(capsys, "check", "--conn-id", "erp")
    said = {row["capture_instance"]: row for row in rows}
    assert code == 1
    assert said["dbo_orders"]["problems"] == []
    assert said["dbo_orders"]["key"] == "id"
    assert any("_chunk" in problem for problem in said["dbo_odd"]["problems"])
    code, rows = json_of(capsys, "check", "--conn-id", "erp", "--capture-instance", "dbo_orders")
    assert (code, [row["capture_instance"] for row in rows]) == (0, ["dbo_orders"])
    code, rows = json_of(capsys, "check", "--conn-id", "erp", "--capture-instance", "dbo_gone")
    assert (code, len(rows[0]["problems"])) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["status", "--facts", "{folder}/none"], "there is no Delta table at"),
        (["status", "--facts", "{bronze}"], "is not a facts table"),
        (["facts", "--facts", "{facts}", "--limit", "0"], "--limit must be an integer >= 1, got 0"),
        (["tables", "--conn-id", "nobody"], "nobody"),
        (["abandon", "--bronze", "{bronze}", "--snapshot", "soon"], "soon"),
        (["setup-sql", "--database", "shop", "--tables", "a.b.c"], "a table must be"),
    ],
)
def test_a_question_that_fails_ends_with_two_and_says_why(
    world: ChangesWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    world.bootstrap()
    names = {"folder": str(tmp_path), "bronze": world.table.bronze, "facts": world.table.facts}
    code, out, err = run(capsys, *(argument.format_map(names) for argument in arguments))
    assert (code, out) == (2, "")
    assert said in err
    assert "Traceback" not in err


def test_setup_sql_prints_the_same_script_as_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--database", "shop", "--tables", "dbo.orders", "[my schema].[a.b]", "--login", "loader"]
    code, out, _ = run(capsys, "setup-sql", *arguments)
    command = [sys.executable, "-m", "airflow_provider_mssql_cdc.setup_sql", *arguments]
    assert (code, out) == (0, subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_other_airflow_commands_load_neither_drivers_nor_delta(tmp_path: Path) -> None:
    heavy = ("pyarrow", "deltalake", "pymssql", "mssql_python", "airflow_provider_mssql_cdc.cli.commands")
    program = (
        "from airflow.cli.cli_parser import get_parser; import sys; get_parser().parse_args(['version']); "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path)},
    )
    assert done.stdout.splitlines()[-1] == "[]"
