"""The embedded server in a separate process.

A driver that fetches a large value keeps Python's lock until it has all of it; a server in the same
process could then never send the rest.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_WITHIN_SECONDS = 60
ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def server_process(*arguments: str) -> Iterator[str]:
    """Start the server with these command-line arguments; yields its Airflow connection as JSON."""
    with tempfile.TemporaryDirectory(prefix="mssql-embedded-") as folder:
        ready = Path(folder, "ready.json")
        command = [sys.executable, "-m", "airflow_provider_mssql_cdc.embedded", "--port", "0"]
        process = subprocess.Popen([*command, "--ready-file", str(ready), *arguments], cwd=ROOT)
        try:
            yield _connection(process, ready)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _connection(process: subprocess.Popen[bytes], ready: Path) -> str:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not ready.exists():
        assert process.poll() is None, "the embedded server ended before it was ready"
        assert time.monotonic() < deadline, "the embedded server is not ready"
        time.sleep(0.02)
    connection = json.loads(ready.read_text())["connection"]
    return connection if isinstance(connection, str) else json.dumps(connection)
