"""The body of a claim: the lease, how long to wait, for which backend, and what the agent says of itself."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from potato_ray.agent.protocol import MAX_WAIT_S
from potato_ray.mirror.reading import MAX_NUMBER, as_object
from potato_ray.mirror.refusals import Malformed
from potato_ray.server.agent_headers import LEASE_FORM

MAX_BYTES = 64 * 1024
MAX_GPUS = 64
MAX_LACKS = 64
_LONGEST = 255
_TEXTS = ("id", "host", "python", "version", "workdir", "executable")
_GPU_TEXTS = ("uuid", "name")
_GPU_NUMBERS = ("total_mb", "free_mb")


@dataclass(frozen=True)
class Claim:
    """A claim. `agent` has id, host, python, version, workdir, executable, gpus and lacks, each of its type.

    `backend`: whose runs the agent was told to ask for; "" where it does not say.
    """

    lease: str = field(repr=False)
    wait_s: float
    agent: Mapping[str, Any]
    backend: str = ""


def claim_of(raw: bytes) -> Claim:
    """The claim in a body. Raises Malformed."""
    body = as_object(raw)
    lease = body.get("lease")
    if not isinstance(lease, str) or not LEASE_FORM.fullmatch(lease):
        raise _malformed("The field lease is not 32 hexadecimal digits in lower case.")
    agent = agent_of(body.get("agent"))
    return Claim(lease, _wait_s(body.get("wait_s", 0)), agent, _backend(body.get("backend")))


def agent_of(said: Any) -> dict[str, Any]:
    """What an agent says of itself. Raises Malformed."""
    if not isinstance(said, Mapping):
        raise _malformed("The field agent is no object.")
    told: dict[str, Any] = {name: _text(said, name) for name in _TEXTS}
    if not told["id"]:
        raise _malformed("The field agent.id is missing.")
    gpus = said.get("gpus", [])
    if not isinstance(gpus, list) or not all(isinstance(gpu, Mapping) for gpu in gpus):
        raise _malformed("The field agent.gpus is no list of objects.")
    lacks = said.get("lacks", [])
    if not isinstance(lacks, list) or not all(isinstance(name, str) for name in lacks):
        raise _malformed("The field agent.lacks is no list of texts.")
    return {
        **told,
        "gpus": [_gpu(gpu) for gpu in gpus[:MAX_GPUS]],
        "lacks": [_text({"lacks": name}, "lacks") for name in lacks[:MAX_LACKS]],
    }


def _gpu(said: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: _text(said, name) for name in _GPU_TEXTS}
    return {**texts, **{name: _number(said.get(name)) for name in _GPU_NUMBERS}}


def _backend(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed("The field backend is no text.")
    return value


def _wait_s(value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not value >= 0:
        raise _malformed("The field wait_s is no number of seconds.")
    return float(min(value, MAX_WAIT_S))


def _text(said: Mapping[str, Any], name: str) -> str:
    value = said.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed(f"The field {name} of the agent is no text.")
    text = "".join(each if each.isprintable() else "?" for each in value)
    return text.encode("utf-8", "replace").decode("utf-8")[:_LONGEST]


def _number(value: Any) -> float | int | None:
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return value if usable and 0 <= value <= MAX_NUMBER else None


def _malformed(message: str) -> Malformed:
    return Malformed(message, next_step="Send it as docs/agent-protocol.md has it.")
