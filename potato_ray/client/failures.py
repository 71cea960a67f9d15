"""What a call to a server can raise. Every one carries code, message, evidence and next step.

PotatoRayError
├── ClientError            base of what follows; `status` is the HTTP status, None without an answer
│   ├── StartRefused       the start was refused (400, 409, 429); also errors.StartRefused
│   ├── NotFound           no such run, backend, file (404); also errors.NotFound
│   ├── Conflict           the present state forbids it (409); also errors.Conflict
│   ├── BadRequest         the server does not take the request as it is (400, 413, 422, ...)
│   ├── AccessRefused      the admin key is missing or wrong (401, 403)
│   ├── TooManyRequests    too many requests (429); `retry_after_s` says when to try again
│   ├── ServerUnavailable  it cannot be reached, is starting, or did not answer in time (503)
│   ├── ServerError        it met an error of its own (5xx)
│   ├── ProtocolError      what came back is no answer of a potato_ray server
│   ├── UnsafePath         a name of a file that must not be written here
│   └── WaitTimedOut       the run has not ended within timeout_s; it goes on
├── RunFailed              Run.wait: the run ended as error or interrupted
└── Cancelled              Run.wait: the run was cancelled
"""

from __future__ import annotations

from typing import Any

from potato_ray import errors
from potato_ray.errors import PotatoRayError


class ClientError(PotatoRayError):
    """Base of everything that a call to a server raises."""

    default_code = "client_error"
    status: int | None = None
    retry_after_s: float | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (*super().__reduce__(), {"status": self.status, "retry_after_s": self.retry_after_s})


class StartRefused(ClientError, errors.StartRefused):
    """The start was refused at once; docs/errors.md lists the codes."""

    default_code = "bad_params"


class NotFound(ClientError, errors.NotFound):
    """The server knows no such run, backend or file."""

    default_code = "not_found"


class Conflict(ClientError, errors.Conflict):
    """The present state forbids what was asked."""

    default_code = "conflict"


class BadRequest(ClientError):
    """The server does not take the request as it is."""

    default_code = "malformed_request"


class AccessRefused(ClientError):
    """The admin key is missing or wrong."""

    default_code = "access_refused"


class TooManyRequests(ClientError):
    """The server asks to wait, `retry_after_s` seconds where it says so."""

    default_code = "too_many_requests"


class ServerUnavailable(ClientError):
    """The server cannot be reached, is starting, or did not answer in time."""

    default_code = "server_unavailable"


class ServerError(ClientError):
    """The server met an error of its own."""

    default_code = "unexpected"


class ProtocolError(ClientError):
    """What came back is no answer of a potato_ray server: another program, a proxy, another version."""

    default_code = "unexpected_answer"


class UnsafePath(ClientError):
    """The server names a file that would be written outside the folder, so it is not fetched."""

    default_code = "unsafe_path"


class WaitTimedOut(ClientError):
    """The run has not ended within the time given to `wait`; it goes on."""

    default_code = "wait_timed_out"


class KeyInTheClear(UserWarning):
    """The admin key goes over plain http to another machine, where everybody on the way can read it."""
