"""A command for one run: carried out by whoever holds the project or, with nobody, here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from potato_ray.cli.through_server import server_of
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.lock import holding

ANSWER_WITHIN_S = 30.0


def command_run(
    config: ProjectConfig,
    run_id: str,
    command: Literal["cancel", "withdraw"],
    here: Callable[[ProjectConfig, str], Any],
) -> Any:
    """What the server, the controller of another command, or `here` answers.

    `here` is called while the project's lock is ours. Raises NotFound, Conflict, ServerUnavailable.
    """
    server = server_of(config)
    if server is not None:
        with server:
            return getattr(server, command)(run_id)
    try:
        with holding(config.state_dir, f"potato-ray training {command}"):
            return here(config, run_id)
    except Conflict as held:
        if held.code != "project_in_use":
            raise
    from potato_ray.actors.session import call, reach

    return call(reach(config), command, run_id, timeout_s=ANSWER_WITHIN_S)
