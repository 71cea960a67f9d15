"""A way to a server on which a request of one kind can be held in its middle, or its answer held back.

    agent ──▶ relay ──▶ server       held: the head and half of the body have passed, the rest waits
          ◀──       ◀──              held back: the server has done what was asked, and nobody hears of it

So a test can kill either end at that very moment, however quick the machine is.
"""

from __future__ import annotations

import re
import socket
import threading
from dataclasses import dataclass, field

REQUEST, ANSWER, WHOLE_ANSWER = "request", "answer", "whole answer"
"""What is held: a request or an answer in the middle of its body, or an answer before its first byte."""
HELD_AT_MOST_S = 50.0
_PIECE = 65536
_BEGINNING = re.compile(rb"[A-Z]+ (\S+) HTTP/1\.1\r\n")
_END_OF_HEAD = b"\r\n\r\n"


@dataclass
class Hold:
    """One order to hold: the requests whose path ends with `path`."""

    path: str
    what: str
    met: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    is_lost: bool = False

    def wait(self) -> None:
        """Called where it holds. Returns when it may go on; raises ConnectionAbortedError when it is lost."""
        self.met.set()
        if not self.over.wait(HELD_AT_MOST_S) or self.is_lost:
            raise ConnectionAbortedError


class HoldingRelay:
    """Leads to a port of this machine, whoever listens there at the time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._hold: Hold | None = None
        threading.Thread(target=self._listen, name="relay", daemon=True).start()

    def hold(self, path: str, what: str) -> Hold:
        """Hold what comes from now on; one thing at a time."""
        self.let_go()
        self._hold = Hold(path, what)
        return self._hold

    def let_go(self, lost: bool = False) -> None:
        """Let what is held go on, and all that comes. `lost`: who sent it has died, and the rest with him."""
        hold, self._hold = self._hold, None
        if hold is not None:
            hold.is_lost = lost
            hold.over.set()

    def close(self) -> None:
        self.let_go()
        self._listener.close()

    def held(self, path: str, what: str) -> Hold | None:
        """The order that there is for such a request."""
        hold = self._hold
        return hold if hold is not None and hold.what == what and path.endswith(hold.path) else None

    def _listen(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def _lead(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._port), 5.0)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        _Passage(self, client, server).run()


class _Passage:
    """One connection. Its end on either side is its end on both, with what was held on it."""

    def __init__(self, relay: HoldingRelay, client: socket.socket, server: socket.socket) -> None:
        self._relay = relay
        self._client = client
        self._server = server
        self._path = ""

    def run(self) -> None:
        answers = threading.Thread(target=self._pass_on, args=(self._server, self._client), daemon=True)
        answers.start()
        self._pass_on(self._client, self._server)
        answers.join()
        self._client.close()
        self._server.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(_PIECE):
                self._take(piece, source, sink)
        except OSError:
            pass
        for side in (source, sink):
            try:
                side.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _take(self, piece: bytes, source: socket.socket, sink: socket.socket) -> None:
        if source is self._client:
            begins = _BEGINNING.match(piece)
            self._path = begins[1].decode("ascii") if begins else self._path
            hold = self._relay.held(self._path, REQUEST) if begins else None
        elif hold := self._relay.held(self._path, WHOLE_ANSWER):
            hold.wait()
            hold = None
        else:
            hold = self._relay.held(self._path, ANSWER)
        if hold is None:
            sink.sendall(piece)
        else:
            _pass_half(piece, source, sink, hold)


def _pass_half(piece: bytes, source: socket.socket, sink: socket.socket, hold: Hold) -> None:
    """The head and half of what is there of the body; the other half when the hold is over."""
    while not piece.partition(_END_OF_HEAD)[2]:
        more = source.recv(_PIECE)
        if not more:
            raise OSError("it ended within its head")
        piece += more
    body_at = piece.index(_END_OF_HEAD) + len(_END_OF_HEAD)
    half = body_at + max(1, (len(piece) - body_at) // 2)
    sink.sendall(piece[:half])
    hold.wait()
    sink.sendall(piece[half:])
