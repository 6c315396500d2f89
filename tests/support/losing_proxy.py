"""An S3 API behind which commits lose: some commit is put just before the client puts its own.

A separate process, as the API behind it is: delta-rs keeps Python's lock while it waits for an answer.

    python -m tests.support.losing_proxy PORT TARGET PATTERN TIMES MODE
"""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[2]
Mode = Literal["others", "own", "held"]
"""``others``: commits of somebody else come first; ``own``: the answer to the client's own commit is lost;
``held``: the client's own commit is neither passed on nor answered."""

SOMEBODY_ELSES = {"commitInfo": {"timestamp": 1, "operation": "SET TBLPROPERTIES", "operationParameters": {}}}
_COMMIT = re.compile(r"/_delta_log/(\d{20})\.json\Z")


class Losing(BaseHTTPRequestHandler):
    """Passes requests on; commits that match lose, so many times."""

    protocol_version = "HTTP/1.1"
    target, pattern, mode = "", re.compile(""), "others"
    left = 0
    lock = threading.Lock()

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        if self.command == "PUT" and self._loses():
            if self.mode == "held":
                self.rfile.read(1)  # until the client is gone
                return
            first = json.dumps(SOMEBODY_ELSES).encode() if self.mode == "others" else body
            self._passed_on(first, {"Content-Length": str(len(first))})
        status, headers, answer = self._passed_on(body, dict(self.headers))
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)) if self.command != "HEAD" else _length(headers))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any

    def _loses(self) -> bool:
        commit = _COMMIT.search(urlsplit(self.path).path)
        if commit is None or int(commit[1]) == 0 or not self.pattern.search(self.path):
            return False
        with self.lock:
            type(self).left -= 1
            return self.left >= 0

    def _passed_on(self, body: bytes, headers: dict[str, str]) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = HTTPConnection(urlsplit(self.target).netloc, timeout=60)
        connection.request(self.command, self.path, body=body, headers=headers)
        answer = connection.getresponse()
        read = answer.status, answer.getheaders(), answer.read()
        connection.close()
        return read

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


def _length(headers: list[tuple[str, str]]) -> str:
    return next((value for name, value in headers if name.lower() == "content-length"), "0")


@contextmanager
def losing_proxy(target: str, *, pattern: str, times: int, mode: Mode = "others") -> Iterator[str]:
    """Start one before an S3 API; yields its URL.

    :param pattern: of the paths whose commits, after the first, lose.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    arguments = [str(port), target, pattern, str(times), mode]
    process = subprocess.Popen([sys.executable, "-m", "tests.support.losing_proxy", *arguments], cwd=ROOT)
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def _wait_for(port: int, *, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the proxy does not listen"
            time.sleep(0.05)


if __name__ == "__main__":
    Losing.target, Losing.pattern, Losing.mode = sys.argv[2], re.compile(sys.argv[3]), sys.argv[5]
    Losing.left = int(sys.argv[4])
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Losing).serve_forever()
