"""What a request has to pass before a route sees it: its form, the switch, its origin, the admin key."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from potato_ray.errors import NotFound, PotatoRayError
from potato_ray.server import problems
from potato_ray.server.access import keeper_of
from potato_ray.server.destinations import HOME, LOGIN, LOGOUT, login_page
from potato_ray.server.origins import SAFE_METHODS, header_values, is_host, is_same_origin
from potato_ray.server.problems import Rejected

LONGEST_ADDRESS = 16 * 1024
MOST_HEADERS = 64 * 1024
"""Bytes of all names and values; uvicorn's own limit lies near it, and is answered by uvicorn."""

_SWITCHED = ("/admin/training", "/api/training")
_API = "/admin/training/api"
_TOKENS = "/api/training/backends"
_OPEN = frozenset({"/admin", LOGIN, LOGOUT})


class Gate:
    """An ASGI middleware: answers what may not pass, hands on the rest as it came.

    Without `admins` there is nobody to ask for a key, as none of the routes is theirs.
    """

    def __init__(self, app: ASGIApp, *, admins: bool = True) -> None:
        self.app = app
        self._admins = admins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        try:
            check_form(scope)
            _check_enabled(request)
            _check_origin(scope)
            if self._admins:
                _check_admin(request)
            _check_path(scope)
        except PotatoRayError as error:
            await _refusal(scope, error)(scope, receive, send)
            return
        await self.app(scope, receive, send)


def below(path: str, folder: str) -> bool:
    """Whether a path is `folder` or lies below it."""
    return path == folder or path.startswith(f"{folder}/")


def check_form(scope: Scope) -> None:
    """Raises Rejected: 400, 414 or 431."""
    hosts = header_values(scope, "host")
    if len(hosts) > 1 or not all(map(is_host, hosts)):
        raise _malformed("The Host header is neither a name nor an address.", "bad_host")
    address = scope.get("raw_path", b"") + b"?" + scope["query_string"]
    if len(address) > LONGEST_ADDRESS:
        raise _too_long(414, "The address is too long.", "address_too_long", LONGEST_ADDRESS)
    if sum(len(name) + len(value) for name, value in scope["headers"]) > MOST_HEADERS:
        raise _too_long(431, "The headers are too long.", "headers_too_long", MOST_HEADERS)
    if b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
        raise _malformed("The query holds a NUL character.", "malformed_request")


def _check_enabled(request: Request) -> None:
    enabled = request.app.state.context.config.model_training.enabled
    if not enabled and any(below(request.scope["path"], folder) for folder in _SWITCHED):
        raise NotFound(
            "Training is not enabled in this project.",
            code="training_disabled",
            next_step="Set model_training.enabled to true in the configuration, and start the server again.",
        )


def _check_origin(scope: Scope) -> None:
    if scope["method"] in SAFE_METHODS or is_same_origin(scope):
        return
    raise Rejected(
        403,
        "The request comes from a page of another site.",
        code="cross_origin",
        evidence="Origin, or else Referer, names another scheme, host or port than the request was sent to.",
        next_step="Use the server's own pages; behind a proxy, let it pass on Host and X-Forwarded-Proto.",
    )


def _check_admin(request: Request) -> None:
    path = request.scope["path"]
    is_admins = path.startswith("/admin/") and path.rstrip("/") not in _OPEN
    if is_admins or below(path, _TOKENS):
        keeper_of(request).admit(request)


def _check_path(scope: Scope) -> None:
    if "\0" in scope["path"]:
        raise NotFound("Nothing has a NUL character in its name.", next_step="Correct the address.")


def _refusal(scope: Scope, error: PotatoRayError) -> RedirectResponse | problems.ProblemAnswer:
    """A person at a page is led to the login, and from there back to it."""
    if error.code == "admin_key_required" and scope["method"] in ("GET", "HEAD") and _is_page(scope["path"]):
        raw = scope.get("raw_path") or HOME.encode()
        query = scope["query_string"]
        wanted = (raw + b"?" + query if query else raw).decode("latin-1")
        return RedirectResponse(login_page(wanted), 302)
    return problems.of(error)


def _is_page(path: str) -> bool:
    return below(path, HOME) and not below(path, _API)


def _malformed(message: str, code: str) -> Rejected:
    return Rejected(400, message, code=code, next_step="Correct it; /openapi.json describes every route.")


def _too_long(status: int, message: str, code: str, limit: int) -> Rejected:
    return Rejected(
        status,
        message,
        code=code,
        evidence=f"More than {limit // 1024} KiB are not read.",
        next_step="Send less; what is long belongs in a body.",
    )
