"""What people should know of a controller that is not ready, before they start anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, Field

from potato_ray.server.context import Phase


class Trouble(BaseModel):
    """A notice: what is the matter, and what it means for whoever wants to start a run."""

    level: Literal["busy", "error"] = Field(description="busy: it goes by; error: it does not by itself")
    title: str
    text: str


def trouble_of(phase: Phase, errors: Sequence[Mapping[str, str]]) -> dict[str, str] | None:
    """The members of a Trouble; None when the controller is ready. `errors` says why it has failed."""
    if phase is Phase.FAILED:
        error = errors[0] if errors else _WORDLESS
        text = " ".join(part for part in (error["evidence"], error["next_step"]) if part)
        return _said("error", f"Runs cannot be started: {error['error']}", text)
    title, text = _PHASES.get(phase, ("", ""))
    return _said("busy", title, text) if title else None


def _said(level: str, title: str, text: str) -> dict[str, str]:
    return {"level": level, "title": title, "text": text}


_WORDLESS = {"error": "Ray did not start.", "evidence": "", "next_step": ""}

_PHASES: Mapping[Phase, tuple[str, str]] = {
    Phase.STARTING: (
        "The server is starting.",
        "A run that is started now begins as soon as Ray is up.",
    ),
    Phase.RESTARTING: (
        "The controller is being restarted.",
        "Runs under way go on; what is shown here may be a few seconds old.",
    ),
    Phase.STOPPING: ("The server is stopping.", "Nothing can be started any more."),
}
