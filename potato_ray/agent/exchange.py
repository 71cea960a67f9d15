"""One request and its answer on a connection."""

from __future__ import annotations

import socket
from http.client import HTTPConnection, HTTPMessage, HTTPResponse
from types import TracebackType
from typing import Callable, cast

from potato_ray.agent.answers import MAX_ANSWER_BYTES, Answer, Incoming, as_object
from potato_ray.agent.asking import Ask
from potato_ray.agent.errors import ServerUnreachable
from potato_ray.agent.line import Line
from potato_ray.agent.mishaps import FAILURES, TORN, unreachable
from potato_ray.agent.upload import Upload


class Exchange:
    """Sends a request and has the head of its answer; the line is given back, or ended, at the end of `with`.

    The constructor raises one of FAILURES or Stopped, and has hung up then.
    """

    def __init__(self, line: Line, ask: Ask, shown: str, give_back: Callable[[Line], None]) -> None:
        self._line = line
        self._shown = shown
        self._give_back = give_back
        self._sent_all = True
        try:
            line.begin(ask.patient, ask.stop)
            self._response = self._talk(ask)
        except BaseException:
            line.hang_up()
            raise
        self._body = Incoming(self._response)
        self._read_all = False

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> HTTPMessage:
        return self._response.headers

    @property
    def left(self) -> int | None:
        """Bytes of the body that are still to come; None where the server did not say."""
        return self._body.left

    def read(self, most: int) -> bytes:
        """The next bytes of the body, b"" at its end. Raises ServerUnreachable, Stopped."""
        try:
            piece = self._body.read(most)
        except FAILURES as failure:
            raise unreachable(failure, self._shown) from failure
        self._read_all = not piece
        return piece

    def answer(self, limit: int = MAX_ANSWER_BYTES) -> Answer:
        """The whole answer. Raises ServerUnreachable, also for a body of more than `limit` bytes; Stopped."""
        try:
            raw = self._body.read_all(limit)
        except FAILURES as failure:
            raise unreachable(failure, self._shown) from failure
        self._read_all = True
        if not self._sent_all and self.status < 300:
            raise ServerUnreachable(
                f"{self._shown} answered {self.status} before it had the whole file.", code="answer_torn"
            )
        return Answer(self.status, self.headers, as_object(raw), raw)

    def __enter__(self) -> Exchange:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Be done with the answer."""
        self._response.close()
        if self._read_all and self._sent_all and not self._response.will_close:
            self._give_back(self._line)
        else:
            self._line.hang_up()

    def _talk(self, ask: Ask) -> HTTPResponse:
        connection = HTTPConnection("unused")
        connection.sock = cast(socket.socket, self._line)
        connection.putrequest(ask.method, ask.target, skip_host=True, skip_accept_encoding=True)
        for name, value in ask.headers.items():
            connection.putheader(name, value)
        if isinstance(ask.body, Upload):
            connection.endheaders()
            self._upload(ask.body)
        else:
            connection.endheaders(ask.body)
        return connection.getresponse()

    def _upload(self, upload: Upload) -> None:
        """Send the file, but not on when the server has answered already: it refuses, and will say why."""
        self._sent_all = False
        for chunk in upload.chunks():
            if self._line.has_answer():
                return
            try:
                self._line.sendall(chunk)
            except TORN:
                # A refusal may have come before the line was cut; if not, reading fails as well.
                return
        self._sent_all = True
