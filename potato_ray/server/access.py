"""Who may do what: the admin key, the session of a browser, and `debug: true` on this machine."""

from __future__ import annotations

import hmac

from fastapi import Depends, Request
from starlette.types import Scope

from potato_ray.server.context import ServerContext
from potato_ray.server.forwarding import is_forwarded
from potato_ray.server.grants import Grant, granted_to, note_grant
from potato_ray.server.origins import header_values, is_from_this_machine
from potato_ray.server.problems import Rejected
from potato_ray.server.sessions import Sessions
from potato_ray.server.throttle import Throttle

KEY_HEADER = "x-api-key"


class Keeper:
    """Lets admins in. One per application, as `app.state.keeper`; works in memory, never on the disk."""

    def __init__(self, context: ServerContext, sessions: Sessions, throttle: Throttle) -> None:
        self.sessions = sessions
        self.throttle = throttle
        self._key = context.admin_key.encode("utf-8", "surrogateescape")
        self._debug = context.config.debug
        self.cookie = f"potato_ray_{_short_name(context)}"

    def admit(self, request: Request) -> Grant:
        """How the request may act as admin. Raises Rejected: 401, 403 or 429.

        A key that is sent is judged, whatever else the request has to show.
        """
        grant = granted_to(request.scope)
        if grant is None:
            grant = self._judged(request)
            note_grant(request.scope, grant)
        return grant

    def guess(self, key: bytes, scope: Scope) -> None:
        """Let the right key pass. Raises Rejected: 403, or 429 after too many wrong ones."""
        right = bool(self._key) and hmac.compare_digest(key, self._key)
        host = scope["client"][0] if scope.get("client") else None
        forwarded = is_forwarded(scope)
        wait_s = self.throttle.judge(host, right, forwarded)
        if wait_s:
            raise _too_many(wait_s, forwarded)
        if not right:
            raise _wrong_key()

    def session_of(self, request: Request) -> str | None:
        """The token of a living session that the browser sent."""
        token = request.cookies.get(self.cookie)
        return token if token is not None and self.sessions.holds(token) else None

    def _judged(self, request: Request) -> Grant:
        sent = [value for value in header_values(request.scope, KEY_HEADER) if value]
        if sent:
            self.guess(", ".join(sent).encode("latin-1"), request.scope)
            return Grant.KEY
        if self.session_of(request) is not None:
            return Grant.SESSION
        if self._debug and is_from_this_machine(request.scope):
            return Grant.DEBUG
        raise _no_key(ended=self.cookie in request.cookies)


def keeper_of(request: Request) -> Keeper:
    """The keeper of the application that serves this request."""
    keeper: Keeper = request.app.state.keeper
    return keeper


async def require_admin(request: Request) -> Grant:
    """Let admins pass; raises Rejected (401, 403, 429)."""
    return keeper_of(request).admit(request)


Admin = Depends(require_admin)
"""For `dependencies=[Admin]` of a router or a route.

Everything below /admin/ is asked for already before its body is read (gate.py); this is what
protects a route elsewhere, and one that was moved.
"""


def _short_name(context: ServerContext) -> str:
    """Cookies know no port: servers of two projects on one machine must not take each other's."""
    folder = str(context.config.task_dir).encode("utf-8", "surrogateescape")
    return hmac.new(b"potato_ray", folder, "sha256").hexdigest()[:8]


def _no_key(ended: bool) -> Rejected:
    return Rejected(
        401,
        "This needs the admin key.",
        code="admin_key_required",
        evidence="The session has ended." if ended else "The request has neither X-API-Key nor a session.",
        next_step="Send the header X-API-Key, or log in at /admin/login.",
        headers={"WWW-Authenticate": 'ApiKey realm="potato_ray"'},
    )


def _wrong_key() -> Rejected:
    return Rejected(
        403,
        "That key was not recognised.",
        code="admin_key_wrong",
        next_step="The key is admin_api_key of the configuration, POTATO_ADMIN_API_KEY of the server's "
        "environment, or in admin_api_key.txt of the project's folder.",
    )


def _too_many(wait_s: int, forwarded: bool) -> Rejected:
    return Rejected(
        429,
        f"Too many wrong keys came from this address{', or from all behind the proxy' if forwarded else ''}.",
        code="too_many_guesses",
        evidence="Until then no key is looked at, the right one neither; sessions go on.",
        next_step=f"Try again in {wait_s} s.",
        headers={"Retry-After": str(wait_s)},
    )
