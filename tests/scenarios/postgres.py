"""A throw-away PostgreSQL server on loopback, for Airflow's own database, where PostgreSQL is installed."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.ports import free_port

PACKAGED = Path("/usr/lib/postgresql")
"""Debian keeps one folder per version here, and only the clients on PATH."""
READY_WITHIN_SECONDS = 60
STOP_WITHIN_SECONDS = 20
LOGIN = "airflow"
# Nothing of it has to outlive the machine, and every Airflow process holds a pool of connections.
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
}


def programs() -> Path | None:
    """The folder that holds ``initdb`` and ``postgres``, the newest version's; None where there is none."""
    on_path = shutil.which("postgres")
    packaged = sorted(PACKAGED.glob("*/bin"), key=lambda folder: int("0" + folder.parent.name))
    found = [*packaged, *([Path(on_path).resolve().parent] if on_path else [])]
    whole = [folder for folder in found if all((folder / name).exists() for name in ("initdb", "postgres"))]
    return whole[-1] if whole else None


@contextmanager
def postgres() -> Iterator[str | None]:
    """An empty database on a free port, gone at the end: its SQLAlchemy URL; None where not installed."""
    if (folder := programs()) is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="postgres-") as made:
        home, as_owner = Path(made), _owner()
        password, port = secrets.token_hex(16), free_port()
        (home / "password").write_text(password)
        for path in (home, home / "password"):
            os.chown(path, as_owner.get("user", -1), as_owner.get("group", -1))
        _initialise(folder, home, as_owner)
        process = _start(folder, home, port, as_owner)
        try:
            _wait_until_it_answers(process, port, home / "log")
            yield f"postgresql+psycopg2://{LOGIN}:{password}@127.0.0.1:{port}/postgres"
        finally:
            _stop(process)


def _owner() -> dict[str, Any]:
    """Arguments for subprocess: PostgreSQL refuses to be run by root."""
    if os.geteuid() != 0:
        return {}
    users = {user.pw_name: user for user in pwd.getpwall()}
    user = users.get("postgres") or users["nobody"]
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _initialise(folder: Path, home: Path, as_owner: dict[str, Any]) -> None:
    command = [str(folder / "initdb"), "--pgdata", str(home / "data"), "--username", LOGIN, "--no-sync"]
    command += ["--pwfile", str(home / "password"), "--auth", "scram-sha-256", "--encoding", "UTF8"]
    done = subprocess.run(
        [*command, "--no-locale"], check=False, capture_output=True, text=True, cwd=home, **as_owner
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _start(folder: Path, home: Path, port: int, as_owner: dict[str, Any]) -> subprocess.Popen[bytes]:
    command = [str(folder / "postgres"), "-D", str(home / "data"), "-p", str(port)]
    for name, value in SETTINGS.items():
        command += ["-c", f"{name}={value}"]
    with (home / "log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=home, start_new_session=True, **as_owner)


def _wait_until_it_answers(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """It listens only when it takes connections, or says for a moment that it starts up."""
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while "ready to accept connections" not in log.read_text(errors="replace"):
        assert process.poll() is None, log.read_text(errors="replace")
        assert time.monotonic() < deadline, f"PostgreSQL on port {port} is not ready"
        time.sleep(0.05)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """SIGINT ends its sessions and then itself."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_WITHIN_SECONDS)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGQUIT)
        process.wait()
