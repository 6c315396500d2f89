"""Values of a million characters and of 16 MB, end to end, in bounded memory and to the last character."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from tests.support.server_process import ROOT, server_process

MOST_MIB = 400
"""Two thirds above what the larger driver takes: values of 16 MB, in each of three columns, are there as they
come, decoded, in Arrow, and once more while they are encoded."""
MILLION, HUGE = 1_000_000, 16 << 20
ROWS = [
    *((MILLION, MILLION, MILLION),) * 20,
    (HUGE // 2, 1, 1),
    (1, HUGE // 2, 1),
    (1, 1, HUGE),
    *((1, 1, 1),) * 40,
]
"""Characters of ``n`` and ``v``, two bytes each in the lake, and bytes of ``b``."""


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server in a separate process: a driver that fetches large values keeps Python's lock."""
    script = tmp_path_factory.mktemp("server") / "init.sql"
    inserts = "\n".join(
        f"INSERT INTO dbo.long VALUES ({number}, REPLICATE(CAST(N'ж' AS nvarchar(max)), {n}), "
        f"REPLICATE(CAST('é' AS varchar(max)), {v}), "
        f"CAST(REPLICATE(CAST('a' AS varchar(max)), {b}) AS varbinary(max)));"
        for number, (n, v, b) in enumerate(ROWS)
    )
    script.write_text(
        "CREATE TABLE dbo.long (id int NOT NULL PRIMARY KEY, n nvarchar(max), v varchar(max), "
        "b varbinary(max));\n"
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
    assert told["rows"] == len(ROWS)
    assert told["peak"] - told["before"] <= MOST_MIB
    found = sorted(lengths_of(str(tmp_path / "bronze")))
    assert [row[1:4] for row in found] == ROWS
    assert {row[4] for row in found} == {"жжééaa"}


def lengths_of(bronze: str) -> Iterator[tuple[int, int, int, int, str]]:
    """Of each row: id, the lengths of its values, and the ends of each."""
    for path in DeltaTable(bronze).file_uris():
        for row in pq.ParquetFile(path).iter_batches(batch_size=1, columns=["id", "n", "v", "b"]):
            key, n, v, b = (column[0].as_py() for column in row.columns)
            ends = "".join((n[0], n[-1], v[0], v[-1], chr(b[0]), chr(b[-1])))
            yield key, len(n), len(v), len(b), ends
