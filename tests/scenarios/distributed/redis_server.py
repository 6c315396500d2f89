"""A throw-away Redis on loopback, for Celery's queues."""

from __future__ import annotations

import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.scenarios.distributed.needs import redis_program
from tests.support.ports import free_port

READY_WITHIN_SECONDS = 60
STOPS_WITHIN_SECONDS = 20


@contextmanager
def redis_server() -> Iterator[str]:
    """Yield its URL. It keeps nothing on disk, and is gone at the end."""
    program = redis_program()
    assert program is not None, "redis-server is not installed"
    with tempfile.TemporaryDirectory(prefix="redis-") as made:
        port, password, log = free_port(), secrets.token_hex(16), Path(made, "log")
        settings = {
            "bind": "127.0.0.1",
            "port": str(port),
            "requirepass": password,
            "dir": made,
            "logfile": str(log),
            "save": '""',
            "appendonly": "no",
        }
        process = subprocess.Popen([program, "-"], stdin=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdin is not None
        process.stdin.write("".join(f"{name} {value}\n" for name, value in settings.items()))
        process.stdin.close()
        try:
            _wait_until_it_answers(process, log)
            yield f"redis://:{password}@127.0.0.1:{port}/0"
        finally:
            process.terminate()
            process.wait(STOPS_WITHIN_SECONDS)


def _wait_until_it_answers(process: subprocess.Popen[str], log: Path) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not (log.exists() and "Ready to accept connections" in log.read_text(errors="replace")):
        assert process.poll() is None, "redis-server ended before it was ready"
        assert time.monotonic() < deadline, "redis-server is not ready"
        time.sleep(0.05)
