"""A command for a project: carried out by whoever holds it or, with nobody, here."""

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
    """As `command_project`, for one run."""
    return command_project(config, command, run_id, here)


def command_project(
    config: ProjectConfig,
    command: Literal["cancel", "withdraw", "register_backend"],
    about: str,
    here: Callable[[ProjectConfig, str], Any],
) -> Any:
    """What the server, the controller of another command, or `here` answers.

    `about` names the run or the backend. `here` is called while the project's lock is ours. Raises
    NotFound, Conflict, ServerUnavailable.
    """
    server = server_of(config)
    if server is not None:
        with server:
            return getattr(server, command)(about)
    try:
        with holding(config.state_dir, f"potato-ray training {command.partition('_')[0]}"):
            return here(config, about)
    except Conflict as held:
        if held.code != "project_in_use":
            raise
    from potato_ray.actors.session import call, reach

    return call(reach(config), command, about, timeout_s=ANSWER_WITHIN_S)
