"""`potato-ray demo`: the main job on the example project, in a copy of it."""

from __future__ import annotations

import shutil
from pathlib import Path

from potato_ray.cli.output import out, say
from potato_ray.cli.running import train
from potato_ray.cli.summary import end_lines
from potato_ray.cli.termination import Terminated
from potato_ray.config import load
from potato_ray.errors import NotFound
from potato_ray.registry.states import State
from potato_ray.starting import StartRequest

EXAMPLE = Path(__file__).resolve().parents[2] / "configs" / "local"


def run_demo(folder: Path, *, once: bool) -> int:
    """Train on a copy of the example project and print the held-out score; 0 for success."""
    _put_example(folder)
    config = load(folder / "config.yaml")
    say(f"training sklearn-text on the scheme sentiment of {folder}")
    try:
        run, interrupted = train(config, StartRequest(trainer="sklearn-text", schemas=("sentiment",)))
    except Terminated as terminated:
        return terminated.exit_code
    for line in end_lines(run):
        out(line)
    if run.state == State.SUCCESS:
        out(f"look at it: potato-ray training show latest {folder / 'config.yaml'}")
    if not once:
        say("the page is not part of this version yet; the run is over")
    return 130 if interrupted else int(run.state != State.SUCCESS)


def _put_example(folder: Path) -> None:
    if (folder / "config.yaml").is_file():
        return
    if not EXAMPLE.is_dir():
        raise NotFound(
            "The example project is not installed with the package.",
            evidence=f"{EXAMPLE} does not exist.",
            next_step="Run the demo from a checkout: ./run demo.",
        )
    shutil.copytree(EXAMPLE, folder)
    say(f"copied the example project to {folder}")
