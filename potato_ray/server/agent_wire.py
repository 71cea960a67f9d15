"""What holds for every exchange with an agent: the version in each answer, and refusals that arrive.

A large body may be refused before all of it is there. A server that hung up then would reset the connection,
and the agent, still sending, would never see why: so the answer is sent first, and the rest passed over for
a while.
"""

from __future__ import annotations

import asyncio

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from potato_ray.agent.protocol import PREFIX, VERSION, VERSION_HEADER
from potato_ray.server.origins import SAFE_METHODS, header_values

SMALL_BYTES, AT_ONCE_S = 64 * 1024, 0.25
"""A body that is so small and there so soon is passed over before the answer; the connection goes on."""
LINGER_BYTES, LINGER_S = 64 * 2**20, 5.0
"""How much of a refused body is passed over behind the answer, and for how long."""


class AgentWire:
    """An ASGI middleware around everything that is answered below PREFIX."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(f"{PREFIX}/"):
            await self.app(scope, receive, send)
            return
        exchange = _Exchange(receive, send, scope)
        await self.app(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request, whose answer may be complete before its body is."""

    def __init__(self, receive: Receive, send: Send, scope: Scope) -> None:
        self._receive = receive
        self._send = send
        self._unread = scope["method"] not in SAFE_METHODS
        # Whoever waits for "100 Continue" gets it with the first look at the body, and else sends none.
        self._waits = any(each.lower() == "100-continue" for each in header_values(scope, "expect"))

    async def receive(self) -> Message:
        self._waits = False
        message = await self._receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            self._unread = False
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers[VERSION_HEADER] = str(VERSION)
            self._unread = self._unread and not self._waits
            await self._pass_over(SMALL_BYTES, AT_ONCE_S)
            if self._unread:
                headers["Connection"] = "close"
        elif self._unread and not message.get("more_body", False):
            await self._send({**message, "more_body": True})
            await self._pass_over(LINGER_BYTES, LINGER_S)
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _pass_over(self, most_bytes: int, within_s: float) -> None:
        passed = 0
        try:
            async with asyncio.timeout(within_s):
                while self._unread and passed < most_bytes:
                    passed += len((await self.receive()).get("body", b""))
        except TimeoutError:
            pass  # what is still under way is cut off
