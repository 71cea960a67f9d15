"""`potato-ray demo`: the main job on the example project, in a copy of it."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from potato_ray.cli.output import out, program, say
from potato_ray.cli.running import EXIT_INTERRUPTED, train
from potato_ray.cli.summary import end_lines
from potato_ray.cli.termination import Terminated
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import NotFound
from potato_ray.registry.states import State
from potato_ray.starting import StartRequest

EXAMPLE = Path(__file__).resolve().parents[2] / "configs" / "local"
FIRST_PORT = 8000


def run_demo(folder: Path, *, once: bool) -> int:
    """Train on a copy of the example project, print the held-out score, and serve its page.

    0 for success, 1 without; then, and under `once`, nothing is served.
    """
    _put_example(folder)
    config = load(folder / "config.yaml")
    say(f"training sklearn-text on the scheme sentiment of {folder}")
    try:
        run, interrupted = train(config, StartRequest(trainer="sklearn-text", schemas=("sentiment",)))
    except Terminated as terminated:
        return terminated.exit_code
    for line in end_lines(run, config.task_dir):
        out(line)
    if run.state == State.SUCCESS:
        out(f"look at it: {program()} training show latest {shlex.quote(str(folder / 'config.yaml'))}")
    if interrupted or run.state != State.SUCCESS:
        return EXIT_INTERRUPTED if interrupted else 1
    return 0 if once else _serve(config)


def _serve(config: ProjectConfig) -> int:
    from potato_ray.cli.serving import serve
    from potato_ray.server.listening import bind_next

    say("serving the example project; Ctrl-C ends it")
    return serve(config, lambda: bind_next("127.0.0.1", FIRST_PORT))


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
