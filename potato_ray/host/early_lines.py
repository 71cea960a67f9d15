"""Connections to the server that are made as soon as there is a way, while the secrets are still to come.

Each costs a round trip over ssh, which is over by the time it is used.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

from potato_ray.agent.address import parse_address
from potato_ray.agent.line import Line, open_line

N_LINES = 2
"""For the bundle, and for the first word that goes home meanwhile."""
LOOK_EVERY_S = 0.005
CONNECT_S = 10.0
JOIN_S = 1.0


class EarlyLines:
    """For the length of a `with` block, at the end of which those that nobody took are hung up."""

    def __init__(self, socket: str, within_s: float) -> None:
        self._socket = socket
        self._within_s = within_s
        self._lines: list[Line] = []
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._connect, name="early lines", daemon=True)

    def __enter__(self) -> EarlyLines:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for line in self.taken():
            line.hang_up()

    def taken(self) -> list[Line]:
        """Those that are there; no more are made."""
        self._end.set()
        self._thread.join(JOIN_S)
        with self._lock:
            lines, self._lines = self._lines, []
        return lines

    def _connect(self) -> None:
        ends_at = time.monotonic() + self._within_s
        while not Path(self._socket).exists():
            if self._end.wait(LOOK_EVERY_S) or time.monotonic() >= ends_at:
                return
        address = parse_address(f"unix:{self._socket}")
        try:
            while len(self._lines) < N_LINES and not self._end.is_set():
                line = open_line(address, None, CONNECT_S)
                with self._lock:
                    self._lines.append(line)
        except OSError:
            pass  # whoever has something to say connects, and is told
