"""The server as a separate process: started, queried, steered and stopped by what any driver can send."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.embedded.drivers import DRIVERS, connected, driver_error, fetch, run

INIT = """CREATE TABLE dbo.t (id int PRIMARY KEY, name nvarchar(20))
GO
EXEC sys.sp_cdc_enable_db
EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N't', @role_name = NULL
GO
INSERT dbo.t VALUES (1, N'one')
GO
"""


class Process:
    """A running server and what its ready file says."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.ready_file = folder / "ready.json"
        command = [sys.executable, "-m", "airflow_provider_mssql_cdc.embedded", "--port", "0"]
        self.process = subprocess.Popen(
            [*command, "--ready-file", str(self.ready_file), *arguments],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self.ready = self._wait()

    @property
    def connection(self) -> str:
        return str(self.ready["connection"])

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def _wait(self) -> dict[str, object]:
        until = time.monotonic() + 30
        while not self.ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > until:
                self.process.kill()
                raise AssertionError(f"no ready file: {self.process.communicate()[0]!r}")
            time.sleep(0.02)
        return json.loads(self.ready_file.read_text())


@pytest.fixture
def process(tmp_path):
    script = tmp_path / "init.sql"
    script.write_text(INIT)
    running = Process(tmp_path, "--database", "shop", "--init", str(script), "--time-zone", "Europe/Berlin")
    yield running
    if running.process.poll() is None:
        running.stop()


def test_it_writes_where_it_listens_and_stops_cleanly_on_sigterm(process):
    assert {"host", "port", "pid", "database", "connection", "control"} <= set(process.ready)
    assert process.ready["pid"] == process.process.pid
    assert process.ready["database"] == "shop"
    assert [path.name for path in process.ready_file.parent.glob(".ready*")] == []
    assert process.stop() == 0


@pytest.mark.parametrize("driver", DRIVERS)
def test_both_drivers_query_it_and_steer_its_capture(process, driver):
    with connected(driver, process.connection) as connection:
        assert fetch(connection, "SELECT id, name FROM cdc.dbo_t_CT") == [(1, "one")]
        run(connection, "EXEC embedded.capture_mode 'manual'")
        run(connection, "INSERT dbo.t VALUES (2, N'two')")
        assert fetch(connection, "SELECT COUNT(*) AS n FROM cdc.dbo_t_CT") == [(1,)]
        assert fetch(connection, "EXEC embedded.capture @commits = 1") == [(1,)]
        assert fetch(connection, "SELECT COUNT(*) AS n FROM cdc.dbo_t_CT") == [(2,)]
        ((entry,),) = fetch(connection, "EXEC embedded.idle")
        highest = "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1) AS lsn"
        assert fetch(connection, highest) == [(entry,)]
        assert fetch(connection, f"EXEC embedded.cleanup @instance = 'dbo_t', @up_to = '{entry}'") == [
            (entry,)
        ]
        assert fetch(connection, "SELECT COUNT(*) AS n FROM cdc.dbo_t_CT") == [(0,)]


def test_faults_are_set_from_another_process(process):
    with (
        connected("pymssql", process.connection) as control,
        connected("mssql-python", process.connection) as client,
    ):
        run(
            control,
            "EXEC embedded.fault @action = 'fail', @pattern = 'FROM dbo.t', @number = 1205, @occurrence = 2",
        )
        assert fetch(client, "SELECT id FROM dbo.t") == [(1,)]
        with driver_error():
            fetch(client, "SELECT id FROM dbo.t")
        ((action, pattern, *_),) = fetch(control, "EXEC embedded.faults")
        assert (action, pattern) == ("fail", "FROM dbo.t")
        run(control, "EXEC embedded.clear_faults")
        run(
            control,
            "EXEC embedded.fault @action = 'run', @pattern = 'COUNT', @sql = 'INSERT dbo.t VALUES (7, NULL)'",
        )
        assert fetch(client, "SELECT COUNT(*) AS n FROM dbo.t") == [(2,)]
        run(control, "EXEC embedded.fault @action = 'drop', @pattern = 'FROM dbo.t', @after_rows = 1")
        with driver_error():
            fetch(client, "SELECT id FROM dbo.t")
        sent = fetch(control, "EXEC embedded.statements")
        assert [row[4] for row in sent if row[3] == "SELECT id FROM dbo.t"] == [1, 0, 1]


def test_a_replica_is_opened_and_held_from_another_process(process):
    with connected("pymssql", process.connection) as control:
        ((port,),) = fetch(control, "EXEC embedded.replica 'secondary'")
        run(control, "EXEC embedded.replica_hold 'secondary'")
        run(control, "INSERT dbo.t VALUES (2, N'two')")
        secondary = json.dumps({**json.loads(process.connection), "port": port})
        with connected("pymssql", secondary) as replica:
            assert fetch(replica, "SELECT COUNT(*) AS n FROM dbo.t") == [(1,)]
            run(control, "EXEC embedded.replica_catch_up 'secondary'")
            assert fetch(replica, "SELECT COUNT(*) AS n FROM dbo.t") == [(2,)]


def test_the_clock_is_set_from_another_process(process):
    with connected("pymssql", process.connection) as control:
        fetch(control, "EXEC embedded.clock @set = '2026-07-01T10:00:00+00:00'")
        ((now,),) = fetch(control, "SELECT CONVERT(varchar(13), GETDATE(), 126) AS now")
        assert now == "2026-07-01T12"


def test_a_restart_is_asked_for_by_sql(process):
    with connected("pymssql", process.connection) as control:
        run(control, "EXEC embedded.restart")
        time.sleep(1)
        with driver_error():
            fetch(control, "SELECT 1 AS one")
    with connected("pymssql", process.connection) as control:
        assert fetch(control, "SELECT id FROM dbo.t") == [(1,)]


def test_only_sysadmins_steer_it(process):
    with connected("pymssql", process.connection) as control:
        run(control, "CREATE LOGIN someone WITH PASSWORD = 'Reader-1-Password'")
        run(control, "CREATE USER someone FOR LOGIN someone")
        plain = json.dumps(
            {**json.loads(process.connection), "login": "someone", "password": "Reader-1-Password"}
        )
        with connected("pymssql", plain) as client, driver_error() as texts:
            run(client, "EXEC embedded.capture")
    assert "sysadmins" in texts[0]


def test_a_wrong_call_says_what_is_wrong(process):
    with connected("pymssql", process.connection) as control:
        for wrong in ("EXEC embedded.fault 'burn', 'x'", "EXEC embedded.capture_mode 'sometimes'"):
            with driver_error() as texts:
                run(control, wrong)
            assert "embedded: ValueError" in texts[0]


def test_a_script_that_fails_ends_the_process_with_its_error(tmp_path):
    script = tmp_path / "init.sql"
    script.write_text("SELECT * FROM dbo.nothing")
    with pytest.raises(AssertionError, match="Invalid object name"):
        Process(tmp_path, "--init", str(script))
