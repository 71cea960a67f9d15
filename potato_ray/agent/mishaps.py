"""What went wrong on the way to the server and back, in words."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from http.client import BadStatusLine, HTTPException, IncompleteRead, RemoteDisconnected
from typing import NamedTuple

from potato_ray.agent.answers import EndlessAnswer
from potato_ray.agent.errors import ServerUnreachable
from potato_ray.agent.line import ProxyRefused, TooSlow

FAILURES = (OSError, HTTPException, ValueError)
"""What a connection raises: http.client raises ValueError, too, for an answer that it cannot read."""

TORN = (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
"""What a connection raises that the other side has ended."""

_WAITING = "The agent goes on trying; check the network and whether the server runs."


class _Said(NamedTuple):
    """`text` follows the server's address."""

    text: str
    code: str = "server_unreachable"
    next_step: str = _WAITING


def unreachable(failure: Exception, shown: str) -> ServerUnreachable:
    """The error for `failure`, one of FAILURES; `shown` is the server's address."""
    said = _of_the_answer(failure) or _of_the_way(failure)
    return ServerUnreachable(f"{shown} {said.text}.", code=said.code, next_step=said.next_step)


def _of_the_answer(failure: Exception) -> _Said | None:
    if isinstance(failure, TooSlow):
        return _Said(f"hangs: {failure}", "server_too_slow")
    if isinstance(failure, RemoteDisconnected):
        return _Said("hung up without an answer")
    if isinstance(failure, IncompleteRead):
        return _Said("was cut off in the middle of its answer", "answer_torn")
    if isinstance(failure, EndlessAnswer):
        return _Said(f"gave an answer that is too long: {failure}", "answer_too_long")
    if isinstance(failure, BadStatusLine) or not isinstance(failure, OSError):
        return _Said("answered with something that is no HTTP", "not_our_server", "Check --server.")
    return None


def _of_the_way(failure: Exception) -> _Said:
    if isinstance(failure, ssl.SSLCertVerificationError):
        why = failure.verify_message or "its certificate is not accepted"
        advice = "Name the certificate of the authority that signed the server's: --ca-file FILE."
        return _Said(f"cannot be trusted: {why}", "certificate_refused", advice)
    if isinstance(failure, ssl.SSLError):
        why = (failure.reason or "no handshake").replace("_", " ").lower()
        return _Said(f"does not speak TLS as expected: {why}", "tls_failed", "Check --server: http or https?")
    if isinstance(failure, ProxyRefused):
        return _Said(f"cannot be reached: {failure}", "proxy_refused", "Check https_proxy and no_proxy.")
    if isinstance(failure, socket.gaierror):
        return _Said(f"cannot be looked up: {failure.strerror}")
    if isinstance(failure, socket.timeout) or getattr(failure, "errno", None) == errno.ETIMEDOUT:
        return _Said("cannot be reached: it did not answer in time", "server_too_slow")
    number = getattr(failure, "errno", None)
    return _Said(f"cannot be reached: {os.strerror(number) if number else type(failure).__name__}")
