"""Where a request comes from: the page that sent it, and whether that is a page of this server."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from starlette.types import Scope

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

_HOST = r"(?P<host>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::(?P<port>[0-9]{1,5}))?"
_AUTHORITY = re.compile(_HOST)
_ORIGIN = re.compile(rf"(?P<scheme>https?)://{_HOST}")
_PAGE = re.compile(rf"(?P<scheme>https?)://{_HOST}(?:[/?#].*)?", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_OF_PROXIES = ("x-forwarded-", "x-real-ip", "forwarded", "via")

Site = tuple[str, str, int]
"""Scheme, host in lower case, port."""


def header_values(scope: Scope, name: str) -> list[str]:
    """The values of a header, in their order; any byte is a character."""
    wanted = name.encode("ascii")
    return [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == wanted]


def is_host(value: str) -> bool:
    """Whether this can be the value of a Host header: a name or an address, and a port or none."""
    return _AUTHORITY.fullmatch(value) is not None


def site_of(scope: Scope) -> Site | None:
    """The site that a request was sent to, by its one Host header; None without a proper one."""
    hosts = header_values(scope, "host")
    found = _AUTHORITY.fullmatch(hosts[0]) if len(hosts) == 1 else None
    return None if found is None else _site(scope["scheme"], found)


def is_same_origin(scope: Scope) -> bool:
    """Whether no page of another site sent this.

    Browsers say where a request comes from by Origin, or else by Referer. Neither: it comes from a
    program, which no foreign page can make send anything.
    """
    origins = header_values(scope, "origin")
    if origins:
        return _all_from(site_of(scope), origins, _ORIGIN)
    return _all_from(site_of(scope), header_values(scope, "referer"), _PAGE)


def _all_from(site: Site | None, values: Sequence[str], form: re.Pattern[str]) -> bool:
    for value in values:
        found = form.fullmatch(value)
        if site is None or found is None or _site(found["scheme"], found) != site:
            return False
    return True


def _site(scheme: str, found: re.Match[str]) -> Site:
    return scheme, found["host"].lower(), int(found["port"] or _DEFAULT_PORTS.get(scheme, 0))


def is_from_this_machine(scope: Scope) -> bool:
    """Whether a program or browser of this very machine sent this, straight to this server.

    False for what any proxy passed on; for a unix socket (no address of a client), by which the
    requests of other machines arrive; and for a Host that is not this machine's own name for
    itself, by which a foreign name that resolves to 127.0.0.1 gives itself away.
    """
    # HTTP/1.0 is spoken by no browser, but by proxies that are set up to say nothing of themselves.
    if not _is_loopback(scope) or scope.get("http_version") == "1.0":
        return False
    if any(key.decode("latin-1").lower().startswith(_OF_PROXIES) for key, _ in scope["headers"]):
        return False
    site = site_of(scope)
    return site is not None and site[1] in _LOCAL_NAMES


def _is_loopback(scope: Scope) -> bool:
    client = scope.get("client")
    try:
        address = ipaddress.ip_address(client[0] if client else "")
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
