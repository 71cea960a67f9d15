"""Connections that end by themselves: no client may keep one by saying nothing, or by taking nothing.

uvicorn has a time limit between two requests alone. Here a request's head has one too, and so has a
client that has had its answer and goes on sending, and one that does not read what it is sent.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 30.0
"""From the connection, or the first byte behind an answer, to the whole head of a request."""
STALL_S = 60.0
"""How long a client may take nothing of what waits for it."""


class TimedConnection(H11Protocol):
    """uvicorn's own protocol, with two deadlines more."""

    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._forget_head()
        else:
            self._expect_head()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        self._forget_reader()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.timeout_keep_alive_handler)

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _watch_reader(self) -> None:
        waiting = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(STALL_S, self._judge_reader, waiting)

    def _judge_reader(self, waiting: int) -> None:
        if self.transport.get_write_buffer_size() < waiting:
            self._watch_reader()
        else:
            self.transport.abort()  # to close it would be to wait for the reader

    def _forget_reader(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None
