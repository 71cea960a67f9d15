"""Whether files of a run stay on its host, known without asking it."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from left_files import note_of

from potato_ray.backends.base import Outcome
from potato_ray.backends.left_on_host import files_stay, left_on_host
from potato_ray.backends.remote_note import write_note
from potato_ray.config import load
from potato_ray.errors import Conflict
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

CONFIGS = Path(__file__).parents[2] / "configs"
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


@pytest.mark.parametrize("configured", ["ssh", "slurm"])
def test_any_host_that_is_logged_in_to_is_asked_for_the_files_of_its_runs(
    tmp_path: Path, configured: str
) -> None:
    config = load(CONFIGS / configured / "config.yaml")
    [name] = config.model_training.backends
    host = config.model_training.backends[name].host  # type: ignore[union-attr]
    write_note(tmp_path, replace(note_of(Path("/r"), **ENDED, keep=True), host=host))
    left = left_on_host(config, replace(run_of(State.SUCCESS, URI), backend=name), tmp_path)
    assert (left.host, left.settings.destination.host) == (host, host)
    write_note(tmp_path, replace(note_of(Path("/r"), **ENDED, keep=True), host="another"))
    with pytest.raises(Conflict) as refused:
        left_on_host(config, replace(run_of(State.SUCCESS, URI), backend=name), tmp_path)
    assert refused.value.code == "host_changed"
