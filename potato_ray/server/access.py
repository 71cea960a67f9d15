"""Who may do what: the admin key, the session of a browser, and where a request comes from."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Header

from potato_ray.server.context import Context
from potato_ray.server.problems import Rejected


def require_admin(context: Context, x_api_key: Annotated[str | None, Header()] = None) -> None:
    """Let admins pass; raises Rejected (401)."""
    if x_api_key is not None and hmac.compare_digest(x_api_key.encode(), context.admin_key.encode()):
        return
    raise Rejected(401, "This needs the admin key.", code="admin_key_required", next_step="Send X-API-Key.")


Admin = Depends(require_admin)
"""For `dependencies=[Admin]` of a router or a route."""
