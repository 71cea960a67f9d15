"""Where a browser goes after the login: to the page that it asked for, and never to another site."""

from __future__ import annotations

import re
from urllib.parse import quote

HOME = "/admin/training"
LOGIN = "/admin/login"
LOGOUT = "/admin/logout"

# A list of what is allowed: no //, no backslash, no percent sign in the path, no control character.
_PATH = re.compile(r"/admin(?:/[A-Za-z0-9_~.-]+)*/?")
_QUERY = re.compile(r"[!$-\[\]_a-z{}|~]*")
_LONGEST = 2000


def destination(wanted: str) -> str:
    """`wanted` if it is a page below /admin of this server, else the Training page."""
    path, mark, query = wanted.partition("?")
    if len(wanted) > _LONGEST or not _PATH.fullmatch(path) or not _QUERY.fullmatch(query):
        return HOME
    parts = path.rstrip("/").split("/")
    if "." in parts or ".." in parts or path.rstrip("/") in (LOGIN, LOGOUT):
        return HOME
    return path + mark + query


def login_page(wanted: str) -> str:
    """The address of the key form that leads to `wanted`."""
    return f"{LOGIN}?next={quote(destination(wanted), safe='/')}"
