"""Whether files of a run stay on its host, known without asking it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from left_files import note_of

from potato_ray.backends.base import Outcome
from potato_ray.backends.left_on_host import files_stay
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

URI = "gpubox:/home/ada/jobs/r.1/artifacts"
ENDED = {"outcome": asdict(Outcome("success"))}


def run_of(state: State, uri: str) -> Run:
    return Run("r", "p", "t", ("s",), ("nominal",), {}, "gpu", state, 1, "page", 0.0, artifact_uri=uri)


@pytest.mark.parametrize(
    ("state", "uri", "note", "stays"),
    [
        (State.SUCCESS, URI, {**ENDED, "keep": True}, True),  # too large, or not to be copied
        (State.SUCCESS, "", {**ENDED, "keep": True}, True),  # keep_remote: here as well
        (State.SUCCESS, "", ENDED, False),  # copied, and cleared up
        (State.CANCELLED, URI, {**ENDED, "keep": True}, True),
        (State.ERROR, URI, ENDED, False),  # what a failed run has made is cleared up
        (State.ERROR, URI, {**ENDED, "keep": True}, True),
        (State.ERROR, "", {**ENDED, "keep": True}, False),  # it made none
        (State.SUCCESS, URI, {**ENDED, "keep": True, "files_removed": True}, False),
        (State.SUCCESS, URI, {}, True),  # nobody has noted its end
    ],
)
def test_files_stay_where_they_were_kept_and_not_removed_since(
    state: State, uri: str, note: dict[str, Any], stays: bool
) -> None:
    assert files_stay(run_of(state, uri), note_of(Path("/home/ada/jobs"), **note)) is stays
