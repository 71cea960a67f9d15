"""The HTTP side of a server: its socket, and uvicorn in a thread of its own.

In another thread than the main one uvicorn leaves the signals alone.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from potato_ray.errors import Conflict, PotatoRayError
from potato_ray.server.forwarding import Forwarding

if TYPE_CHECKING:
    from fastapi import FastAPI

logger = logging.getLogger(__name__)

START_TIMEOUT_S = 20.0
FINISH_S = 3
"""How long open requests may go on when the server stops; streams end at once."""


def bind(host: str, port: int) -> socket.socket:
    """A socket at that address, port 0 for any that is free; nothing is answered yet.

    Raises Conflict (port_in_use), or PotatoRayError (cannot_listen).
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # Named: else asyncio does not see TCP, and each answer's body waits 40 ms for its head's receipt.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as failure:
        raise _cannot_listen(host, port, failure) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(socket.SOMAXCONN)
    except OSError as failure:
        listener.close()
        raise _cannot_listen(host, port, failure) from None
    return listener


def bind_next(host: str, port: int, tries: int = 100) -> socket.socket:
    """A socket at that port or the next one that is free. Raises as `bind` does."""
    for candidate in range(port, port + tries):
        try:
            return bind(host, candidate)
        except Conflict:
            continue
    return bind(host, 0)


def url_of(listener: socket.socket) -> str:
    """Where this machine reaches the server: through loopback when it listens on every address."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host.partition("%")[0])
    if address.is_unspecified:
        host = "127.0.0.1" if address.version == 4 else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(listener: socket.socket) -> bool:
    """Whether only this machine can reach the server."""
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


class Listening:
    """Answers requests from `start` to `stop`. `ended` is called when it ends without being told to."""

    def __init__(self, app: FastAPI, listener: socket.socket, ended: Callable[[], None]) -> None:
        import uvicorn

        from potato_ray.server.connections import TimedConnection

        self._listener = listener
        self._ended = ended
        self._server = uvicorn.Server(
            uvicorn.Config(
                Forwarding(app),
                http=TimedConnection,
                proxy_headers=False,
                log_config=None,
                access_log=False,
                server_header=False,
                ws="none",
                timeout_graceful_shutdown=FINISH_S,
            )
        )
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    def start(self) -> None:
        """Returns once requests are answered. Raises PotatoRayError (cannot_listen)."""
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise PotatoRayError(
                    "The HTTP server did not start.",
                    code="cannot_listen",
                    evidence="Its own messages are above.",
                    next_step="Report it with those messages.",
                )
            time.sleep(0.005)

    def stop(self) -> None:
        """Accept no more requests, and give the open ones FINISH_S."""
        # What is cut off then would be told as an error of the application, with a traceback.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        # Not only `should_exit`: streams of events watch for this call, and end.
        self._server.handle_exit(signal.SIGTERM, None)
        self._thread.join(FINISH_S + 2.0)

    def _serve(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        except BaseException:
            logger.exception("the HTTP server has ended")
        finally:
            self._listener.close()
            if not self._server.should_exit:
                self._ended()


def _cannot_listen(host: str, port: int, failure: OSError) -> PotatoRayError:
    if failure.errno == errno.EADDRINUSE:
        return Conflict(
            f"Port {port} is in use by another program.",
            code="port_in_use",
            evidence=f"Nothing else can listen on {host}:{port}.",
            next_step="Stop that program, or choose another port with --port; --port 0 takes a free one.",
        )
    return PotatoRayError(
        f"The server cannot listen on {host}, port {port}.",
        code="cannot_listen",
        evidence=f"{failure.strerror or os.strerror(failure.errno or 0)}.",
        next_step="Name an address of this machine with --host, and a port above 1023 with --port.",
    )
