"""Headers that tell browsers what our pages never do, on every answer: 404s, 500s and streams too."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "img-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
    )
)

FILE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; sandbox"
"""For a file of a run. A picture brings its own style sheet, and Firefox asks the picture's policy for it."""

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_STATIC = "/static/"
_FOUND = frozenset({200, 206, 304})


class Shields:
    """An ASGI middleware around everything else, the answer to unexpected errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_shielded(message: Message) -> None:
            if message["type"] == "http.response.start":
                shield(MutableHeaders(scope=message), scope["path"], message["status"])
            await send(message)

        await self.app(scope, receive, send_shielded)


def shield(headers: MutableHeaders, path: str, status: int) -> None:
    """Add to the headers of one answer. A route's own policy holds besides, so it can only be stricter.

    FILE_POLICY stands alone: it lets nothing run, and ours would take the style from the pictures.
    """
    if headers.get("Content-Security-Policy") != FILE_POLICY:
        headers.append("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    for name, value in HEADERS.items():
        headers[name] = value
    if not (path.startswith(_STATIC) and status in _FOUND):
        headers["Cache-Control"] = "no-store"
    else:
        # Kept by the browser, and asked for again by its ETag: no page meets the script of another version.
        headers["Cache-Control"] = "no-cache"
