"""A job as the server gives it out: job.json, checked before any of it is used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Mapping

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
MB = 2**20
"""What people are told as MB."""


@dataclass(frozen=True)
class Parcel:
    """Something to fetch, known by its sha256 in hex and its size in bytes."""

    sha256: str
    n_bytes: int


@dataclass(frozen=True)
class JobDocument:
    """One attempt of a run. `body` is the whole document, `backend` "" where it names none. Times in s."""

    run_id: str
    attempt: int
    backend: str
    spec: Mapping[str, Any]
    bundle: Parcel
    code: Parcel
    grace_s: float
    lost_after_s: float
    progress_every_s: float
    max_predictions_mb: float
    body: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.run_id}.{self.attempt}"

    @classmethod
    def from_json(cls, body: Any) -> JobDocument:
        """Raises ValueError for what is no job; a name that could lead out of the workdir is none."""
        try:
            return cls(
                run_id=_matching(_RUN_ID, body["run_id"]),
                attempt=_natural(body["attempt"]),
                backend=_text(body.get("backend")),
                spec=_object(body["spec"]),
                bundle=_parcel(body["bundle"]),
                code=_parcel(body["code"]),
                grace_s=seconds(body.get("grace_seconds"), 20.0),
                lost_after_s=seconds(body.get("lost_after_s"), 300.0),
                progress_every_s=seconds(body.get("progress_every_s"), 1.0),
                max_predictions_mb=seconds(body.get("max_predictions_mb"), 512.0),
                body=body,
            )
        except (KeyError, TypeError, AttributeError) as failure:
            raise ValueError(f"the job has no usable {failure}") from failure


def _matching(pattern: re.Pattern[str], value: Any) -> str:
    if not isinstance(value, str) or not pattern.match(value):
        raise ValueError(f"the job holds an unusable name: {value!r:.80}")
    return value


def _natural(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"the job holds an unusable number: {value!r:.80}")
    return value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("the job holds no spec")
    return value


def _parcel(value: Any) -> Parcel:
    return Parcel(_matching(_DIGEST, value["sha256"]), _natural(value["bytes"]))


def seconds(value: Any, otherwise: float) -> float:
    """A number from outside, `otherwise` where it is none that can be meant."""
    usable = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if usable else otherwise
