"""The server's address: what of it goes into the requests, and through which proxy they go.

http://HOST:8000, https://HOST/PREFIX    a server that can be reached from here
unix:/tmp/…/s                            a socket that ssh has forwarded to it: no proxy, no TLS
"""

from __future__ import annotations

import base64
import ipaddress
import os
import re
from dataclasses import dataclass
from typing import Any, Callable
from urllib.parse import SplitResult, unquote, urlsplit

from potato_ray.agent.errors import AgentMisconfigured

_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"(?:/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)*")
_EXAMPLE = "Give it as http://HOST:8000 or https://HOST/PREFIX."
_SOCKET = "unix:"
LONGEST_SOCKET_BYTES = 107
"""Of a socket's path; the kernel takes no longer one."""


@dataclass(frozen=True)
class Endpoint:
    """A host and a port to connect to; an IPv6 host is without brackets."""

    host: str
    port: int

    @property
    def authority(self) -> str:
        """Such as `gpu1:8000` or `[::1]:8000`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Proxy:
    """A proxy; `authorization` is the value of Proxy-Authorization, "" for none, and is never shown."""

    endpoint: Endpoint
    authorization: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.endpoint.authority})"


@dataclass(frozen=True)
class ServerAddress:
    """Where the server is. `prefix` begins with a slash and does not end with one, or is "".

    `proxy`: the one that all requests go through, None for none. `socket_path`: the unix socket to connect
    to instead of `endpoint`, "" for none.
    """

    scheme: str
    endpoint: Endpoint
    prefix: str = ""
    proxy: Proxy | None = None
    socket_path: str = ""

    @property
    def is_tls(self) -> bool:
        return self.scheme == "https"

    @property
    def host_header(self) -> str:
        authority = self.endpoint.authority
        usual = f":{_PORTS[self.scheme]}"
        return authority[: -len(usual)] if authority.endswith(usual) else authority

    @property
    def shown(self) -> str:
        """For messages, such as https://host/prefix; what leads there is named too."""
        if self.socket_path:
            return _SOCKET + self.socket_path
        through = f" through the proxy {self.proxy.endpoint.authority}" if self.proxy else ""
        return f"{self.scheme}://{self.host_header}{self.prefix}{through}"

    def target(self, path: str) -> str:
        """What the request line names: a proxy for plain HTTP wants the whole address."""
        if self.proxy is not None and not self.is_tls:
            return f"{self.scheme}://{self.host_header}{self.prefix}{path}"
        return self.prefix + path


def parse_address(url: str) -> ServerAddress:
    """The address in `url`, with the proxy that the environment names for it.

    Raises AgentMisconfigured; the message quotes nothing that could be a password.
    """
    if url.startswith(_SOCKET):
        return _parse_socket(url[len(_SOCKET) :])
    parts = _split(url, "The server's address")
    if parts.scheme not in _PORTS:
        raise _unusable("The server's address", "it begins with neither http:// nor https://")
    if parts.username is not None or parts.password is not None:
        raise _unusable("The server's address", "it holds a user name; the token alone is sent")
    if parts.query or parts.fragment:
        raise _unusable("The server's address", "it has a ? or a # in it")
    prefix = parts.path.rstrip("/")
    if not _PREFIX.fullmatch(prefix) or ".." in prefix.split("/"):
        raise _unusable("The server's address", "its path holds characters that no path may have")
    endpoint = _endpoint(parts, "The server's address", _PORTS[parts.scheme])
    return ServerAddress(parts.scheme, endpoint, prefix, _proxy_for(parts.scheme, endpoint))


def _parse_socket(path: str) -> ServerAddress:
    what, example = "The server's socket", "Give it as unix:/PATH."
    if not path.startswith("/") or "\0" in path:
        raise _unusable(what, "it is no absolute path", example)
    if len(os.fsencode(path)) > LONGEST_SOCKET_BYTES:
        raise _unusable(what, f"its path is longer than {LONGEST_SOCKET_BYTES} bytes", example)
    return ServerAddress("http", Endpoint("localhost", _PORTS["http"]), socket_path=path)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine by its very name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _proxy_for(scheme: str, endpoint: Endpoint) -> Proxy | None:
    # A forwarded port (ssh -R) is on this machine, where no proxy could find it.
    if is_loopback(endpoint.host):
        return None
    import urllib.request

    proxies = urllib.request.getproxies_environment()
    found = proxies.get(scheme, "")
    past: Callable[..., Any] = urllib.request.proxy_bypass_environment  # type: ignore[attr-defined]
    if not found or past(endpoint.authority, proxies) or past(endpoint.host, proxies):
        return None
    return _parse_proxy(found, f"The proxy in {scheme}_proxy")


def _parse_proxy(url: str, what: str) -> Proxy:
    parts = _split(url if "://" in url else f"http://{url}", what)
    if parts.scheme != "http":
        raise _unusable(what, "only proxies whose address begins with http:// can be used", "")
    endpoint = _endpoint(parts, what, 80)
    if parts.username is None:
        return Proxy(endpoint)
    secret = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    return Proxy(endpoint, "Basic " + base64.b64encode(secret).decode("ascii"))


def _split(url: str, what: str) -> SplitResult:
    if not url.isprintable() or " " in url:
        raise _unusable(what, "it holds blanks or characters that cannot be printed")
    try:
        return urlsplit(url)
    except ValueError:
        raise _unusable(what, "it is no address") from None


def _endpoint(parts: SplitResult, what: str, usual_port: int) -> Endpoint:
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _unusable(what, "its port is no number from 1 to 65535") from None
    if not host or port == 0:
        raise _unusable(what, "it names no host" if not host else "port 0 cannot be connected to")
    try:
        ascii_host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise _unusable(what, "its host is no name") from None
    return Endpoint(ascii_host, port or usual_port)


def _unusable(what: str, why: str, next_step: str = _EXAMPLE) -> AgentMisconfigured:
    return AgentMisconfigured(f"{what} cannot be used: {why}.", code="bad_address", next_step=next_step)
