"""A unix socket that leads to a port, as one that sshd has forwarded."""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType


class Forwarded:
    """Listens at `path` from `with` to the end of its block; then all connections are cut.

    As with sshd, the file stays, and so has to be removed before another one can listen there.
    """

    def __init__(self, path: str, port: int) -> None:
        self.path = path
        self._port = port
        self._open: list[socket.socket] = []
        self._pumps: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        old_mask = os.umask(0o177)
        try:
            self._listener.bind(path)
        finally:
            os.umask(old_mask)
        self._listener.listen(16)
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Forwarded:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    @property
    def n_connections(self) -> int:
        """So many have been made so far."""
        return len(self._open) // 2

    def end(self) -> None:
        _shut(self._listener)
        self._listener.close()
        self._thread.join(5.0)
        for each in self._open:
            _shut(each)
        for pump in self._pumps:
            pump.join(5.0)
        for each in self._open:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                near = self._listener.accept()[0]
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._port), 5.0)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._open += [near, far]
            for source, target in ((near, far), (far, near)):
                pump = threading.Thread(target=_pump, args=(source, target), daemon=True)
                pump.start()
                self._pumps.append(pump)


def _pump(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for each in (target, source):
        _shut(each)


def _shut(each: socket.socket) -> None:
    try:
        each.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
