"""Values of a million characters and of 16 MB, end to end, in bounded memory and to the last character."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder

from tests.support.server_process import ROOT, server_process

MOST_MIB = 300
"""What a mapped read may take, as in the benchmarks."""
MILLION, HUGE = 1_000_000, 16 << 20
MANY, FEW = 40, 4


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a process of its own: a driver that fetches large values keeps Python's lock."""
    script = tmp_path_factory.mktemp("server") / "init.sql"
    rows = [(number, MILLION) for number in range(MANY)] + [(MANY + number, HUGE) for number in range(FEW)]
    inserts = "\n".join(
        f"INSERT INTO dbo.long VALUES ({number}, REPLICATE(CAST(N'ж' AS nvarchar(max)), {size // 2}), "
        f"REPLICATE(CAST('é' AS varchar(max)), {size}), "
        f"CAST(REPLICATE(CAST('ab' AS varchar(max)), {size // 2}) AS varbinary(max)));"
        for number, size in rows
    )
    script.write_text(
        "CREATE TABLE dbo.long (id int NOT NULL PRIMARY KEY, n nvarchar(max), v varchar(max), b varbinary(max));\n"
        f"{inserts}\nEXEC sys.sp_cdc_enable_db;\nEXEC sys.sp_cdc_enable_table @source_schema = 'dbo', "
        "@source_name = 'long', @role_name = NULL;\n",
        encoding="utf-8",
    )
    with server_process("--init", str(script)) as running:
        yield running


@pytest.mark.parametrize("driver", ["mssql-python", "pymssql"])
def test_large_values_arrive_whole_and_memory_stays_bounded(
    connection: str, tmp_path: Path, driver: str
) -> None:
    asked = {"connection": connection, "driver": driver, "instance": "dbo_long", "folder": str(tmp_path)}
    child = subprocess.run(
        [sys.executable, "-m", "tests.support.measured_load"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert child.returncode == 0, child.stderr[-2000:]
    told = json.loads(child.stdout.splitlines()[-1])
    assert told["rows"] == MANY + FEW
    assert told["peak"] - told["before"] <= MOST_MIB
    lengths = (
        "SELECT length(n) AS n, length(v) AS v, octet_length(b) AS b, count(*) AS rows, "
        "count(distinct left(n, 1) || right(n, 1) || left(v, 1) || right(v, 1)) AS ends "
        "FROM t GROUP BY 1, 2, 3 ORDER BY 1"
    )
    table = DeltaTable(str(tmp_path / "bronze"))
    found = QueryBuilder().register("t", table).execute(lengths).read_all()
    rows = [tuple(column[index].as_py() for column in found.columns) for index in range(found.num_rows)]
    assert rows == [(size // 2, size, size, count, 1) for size, count in ((MILLION, MANY), (HUGE, FEW))]
