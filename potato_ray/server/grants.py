"""What let a request in, noted in its ASGI scope."""

from __future__ import annotations

from enum import StrEnum

from starlette.types import Scope

_NOTED = "potato_ray.grant"


class Grant(StrEnum):
    """What a request showed to act as admin."""

    KEY = "key"
    SESSION = "session"
    DEBUG = "debug"


def note_grant(scope: Scope, grant: Grant) -> None:
    """Remember it for whatever handles this request later."""
    scope[_NOTED] = grant


def granted_to(scope: Scope) -> Grant | None:
    """What let this request in; None for one that was not asked, or had nothing to show."""
    grant: Grant | None = scope.get(_NOTED)
    return grant
