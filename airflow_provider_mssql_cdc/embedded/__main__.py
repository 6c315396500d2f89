"""``python -m airflow_provider_mssql_cdc.embedded``: the embedded server as a separate process.

It runs until SIGTERM or SIGINT. When it listens, it writes a JSON file: ``host``, ``port``, ``pid``,
``database``, ``connection`` (an Airflow connection as JSON text), ``control`` (where and how it is
steered: the same port, ``EXEC embedded.<procedure>`` as sa).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer
from airflow_provider_mssql_cdc.embedded.batches import split_batches


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m airflow_provider_mssql_cdc.embedded", description=__doc__
    )
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--ready-file", type=Path, help="JSON file to write when the server listens")
    parser.add_argument("--database", default="demo", help="database to create")
    parser.add_argument(
        "--init", type=Path, action="append", default=[], help="T-SQL to run first (GO splits)"
    )
    parser.add_argument("--tls", choices=("off", "login", "required"), default="off")
    parser.add_argument("--directory", type=Path, help="where the files go; temporary by default")
    parser.add_argument("--time-zone", default="UTC", help="the server's time zone, an IANA name")
    return parser.parse_args(arguments)


def write_ready_file(path: Path, server: EmbeddedSqlServer) -> None:
    """Write it whole or not at all: readers wait for its name."""
    ready = {
        "host": server.host,
        "port": server.port,
        "pid": os.getpid(),
        "database": server.database,
        "connection": server.airflow_connection(),
        "control": f"{server.host}:{server.port}",
    }
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(ready, indent=2), encoding="utf-8")
    partial.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal comes."""
    options = parse_arguments(arguments)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with EmbeddedSqlServer(
        options.database,
        port=options.port,
        tls=options.tls,
        directory=options.directory,
        time_zone=options.time_zone,
    ) as server:
        for script in options.init:
            for batch in split_batches(script.read_text(encoding="utf-8-sig")):
                server.execute(batch)
        if options.ready_file is not None:
            write_ready_file(options.ready_file, server)
        sys.stdout.write(f"listening on {server.host}:{server.port}, database {server.database}\n")
        sys.stdout.flush()
        stop.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
