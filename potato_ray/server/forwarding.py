"""Proxies on this machine: for whom they speak is believed, and it is remembered that it was only said.

Any program here can say the same: whoever counts by address must not trust in a said one alone.
"""

from __future__ import annotations

from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send

TRUSTED = "127.0.0.1"
"""The one peer whose X-Forwarded-For and X-Forwarded-Proto are believed."""
_PEER = "potato_ray.peer"


class Forwarding:
    """Around an ASGI application: puts the client and scheme that a proxy names into the scope."""

    def __init__(self, app: ASGIApp) -> None:
        from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

        self._app = ProxyHeadersMiddleware(cast("Any", app), trusted_hosts=TRUSTED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[_PEER] = scope.get("client")
        await self._app(cast("Any", scope), cast("Any", receive), cast("Any", send))


def is_forwarded(scope: Scope) -> bool:
    """Whether the client's address is what a proxy, or anything else on this machine, has said."""
    return _PEER in scope and scope[_PEER] != scope.get("client")
