"""One address in front of several servers, as a listener of an availability group is."""

from __future__ import annotations

import contextlib
import socket
import threading


class Forwarder:
    """Passes new connections on to ``target``, a port of 127.0.0.1; those that are open stay where they are.

    It runs until the process ends.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, name="forwarder", daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listening.accept()
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Until one side is done; then the other side learns it."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
