"""Server-Sent Events, read from bytes as they come in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from potato_ray.client.answers import parsed
from potato_ray.client.failures import ProtocolError

MAX_LINE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class ServerEvent:
    """One event. `id` is the last one that was given, "" before the first."""

    event: str
    data: str
    id: str

    def json(self) -> Any:
        """The data as JSON; None when it is not."""
        try:
            return parsed(self.data)
        except ValueError:
            return None


class Lines:
    """Bytes as they come in, cut into lines without their ends; `ends` are what may end one."""

    def __init__(self, crlf: bool = False) -> None:
        self._rest = b""
        self._crlf = crlf

    def add(self, piece: bytes) -> Iterator[bytes]:
        """The lines that `piece` completes. Raises ProtocolError for a line without end."""
        rest = self._rest + piece
        if self._crlf:
            # A \\r at the very end may be half of a \\r\\n.
            held, rest = (b"\r", rest[:-1]) if rest.endswith(b"\r") else (b"", rest)
            rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        else:
            held = b""
        *lines, last = rest.split(b"\n")
        self._rest = last + held
        if len(self._rest) > MAX_LINE_BYTES:
            raise ProtocolError(
                "The server sends a line without end.",
                evidence=f"It has more than {MAX_LINE_BYTES} bytes.",
                next_step="Check that client and server are of like versions.",
            )
        yield from lines

    @property
    def rest(self) -> bytes:
        """What has come of a line that is not complete."""
        return self._rest


class EventReader:
    """Cuts a stream into events. `last_id` is what a reconnecting client sends as Last-Event-ID."""

    def __init__(self, last_id: str = "") -> None:
        self.last_id = last_id
        self._lines = Lines(crlf=True)
        self._event = ""
        self._data: list[str] = []
        self._id = last_id

    def add(self, piece: bytes) -> Iterator[ServerEvent]:
        """The events that `piece` completes."""
        for line in self._lines.add(piece):
            if line:
                self._take(line.decode("utf-8", "replace"))
            else:
                yield from self._complete()

    def cut(self) -> None:
        """The stream has ended; what is not complete is dropped, and comes again."""
        self._lines = Lines(crlf=True)
        self._event, self._data, self._id = "", [], self.last_id

    def _take(self, line: str) -> None:
        name, _, value = line.removeprefix("\ufeff").partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            self._event = value
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value

    def _complete(self) -> Iterator[ServerEvent]:
        event, data = self._event, self._data
        self._event, self._data = "", []
        self.last_id = self._id
        if data:
            yield ServerEvent(event or "message", "\n".join(data), self._id)
