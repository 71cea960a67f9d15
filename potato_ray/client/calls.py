"""The calls that the API takes, as data: what is sent, and nothing of how."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from potato_ray.client.failures import BadRequest

_KEY_FORM = re.compile(r"[!-~]{1,255}")

API = "/admin/training/api"
AGENT_API = "/api/training"
JSON = "application/json"
JSON_LINES = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"

CONTROLLER_S = 45.0
"""A command may wait 30 s for a controller that is starting."""
CHECK_S = 180.0
"""A check connects to other machines and lists what is installed there."""
REMOTE_S = 120.0
"""A list of files on a host needs a login there."""
SILENCE_S = 45.0
"""The stream says something every 15 s, if only that it is there."""


@dataclass(frozen=True)
class Call:
    """A request. `path` is percent-encoded; `repeatable`: a second time does no harm.

    `at_least_s` is for calls that need longer than others to be answered, `at_most_s` for those that
    nobody waits for any longer.
    """

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON
    at_least_s: float = 0.0
    at_most_s: float | None = None
    repeatable: bool = True

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def _get(path: str, params: Mapping[str, Any] | None = None, accept: str = JSON) -> Call:
    given = {name: str(value) for name, value in (params or {}).items() if value not in (None, "")}
    return Call("GET", API + path, given, accept=accept)


def _run(run_id: str, rest: str = "") -> str:
    return f"/runs/{quote(run_id, safe='')}{rest}"


def health() -> Call:
    return Call("GET", "/health")


def start(
    trainer: str,
    schemas: str | Sequence[str],
    params: Mapping[str, Any] | None,
    backend: str | None,
    accept_licence: bool,
    queue: bool,
    idempotency_key: str | None,
) -> Call:
    """A start; the server answers a second one with the same key with the same run.

    None makes a key of its own, so that a start whose answer was lost may be repeated. Raises BadRequest
    for a key that the server does not take.
    """
    if idempotency_key is not None and not _KEY_FORM.fullmatch(idempotency_key):
        raise BadRequest(
            "The idempotency_key is not of the form that a server takes.",
            evidence=f"It is {idempotency_key[:80]!r}, with {len(idempotency_key)} characters.",
            next_step="Use 1 to 255 printable ASCII characters without blanks, or none for a key of its own.",
        )
    body: dict[str, Any] = {
        "trainer": trainer,
        "schemas": schemas if isinstance(schemas, str) else list(schemas),
        "params": dict(params or {}),
        "accept_licence": accept_licence,
        "queue": queue,
    }
    if backend:
        body["backend"] = backend
    headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
    return Call("POST", f"{API}/runs", body=body, headers=headers, at_least_s=CONTROLLER_S)


def runs(limit: int, status: str | None, trainer: str | None) -> Call:
    return _get("/runs", {"limit": limit, "status": status, "trainer": trainer})


def run(run_id: str) -> Call:
    return _get(_run(run_id))


def cancel(run_id: str) -> Call:
    """Not repeated by itself: the second answer could be that the run has already ended."""
    return Call("POST", API + _run(run_id, "/cancel"), at_least_s=CONTROLLER_S, repeatable=False)


def withdraw(run_id: str) -> Call:
    return Call("DELETE", API + _run(run_id, "/predictions"), at_least_s=CONTROLLER_S, repeatable=False)


def events(run_id: str, after: int, limit: int) -> Call:
    return _get(_run(run_id, "/events"), {"after": after, "limit": limit})


def log(run_id: str) -> Call:
    return _get(_run(run_id, "/log"), accept="text/plain")


def predictions(run_id: str) -> Call:
    return _get(_run(run_id, "/predictions"), accept=JSON_LINES)


def artifacts(run_id: str) -> Call:
    return _get(_run(run_id, "/artifacts"))


def artifact(run_id: str, path: str, headers: Mapping[str, str]) -> Call:
    """One file. Not compressed on its way, so that a part of it is a part of the file."""
    return Call(
        "GET",
        API + _run(run_id, f"/artifacts/{_segments(path)}"),
        headers={"Accept-Encoding": "identity", **headers},
        accept="*/*",
    )


def remote_files(run_id: str) -> Call:
    return replace(_get(_run(run_id, "/remote-files")), at_least_s=REMOTE_S)


def fetch_remote_file(run_id: str, path: str) -> Call:
    """Repeatable: a fetch that is under way stays as it is."""
    return Call("POST", f"{API}{_run(run_id, f'/remote-files/{_segments(path)}')}", at_least_s=REMOTE_S)


def remove_remote_files(run_id: str) -> Call:
    """Not repeated by itself: the second answer would be that nothing stays there."""
    return Call("DELETE", API + _run(run_id, "/remote-files"), at_least_s=2 * REMOTE_S, repeatable=False)


def _segments(path: str) -> str:
    return "/".join(quote(segment, safe="") for segment in path.split("/"))


def status() -> Call:
    return _get("/status")


def stream(run_id: str, last_event_id: str) -> Call:
    """What happens, as it happens: of one run, and the status of all."""
    headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
    params = {"run_id": run_id}
    return Call("GET", f"{API}/stream", params, headers=headers, accept=EVENT_STREAM, at_least_s=SILENCE_S)


def trainers() -> Call:
    return _get("/trainers")


def schemas() -> Call:
    return _get("/schemas")


def backends() -> Call:
    return _get("/backends")


def check(backend: str) -> Call:
    return Call("POST", f"{API}/backends/{quote(backend, safe='')}/check", at_least_s=CHECK_S)


def register(backend: str) -> Call:
    """Repeatable: of a token whose answer was lost nobody knows, and the next one replaces it."""
    return Call("POST", f"{AGENT_API}/backends/{quote(backend, safe='')}/register", at_least_s=CONTROLLER_S)
