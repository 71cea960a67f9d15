"""What is said when whoever holds the project does not answer any more, and a run is no longer followed."""

from __future__ import annotations

from potato_ray.errors import Conflict

MAX_SILENCES = 3
"""After so many in a row, each after ASK_EVERY_S, it is lost."""
CODE = "controller_lost"


def controller_lost(run_id: str) -> Conflict:
    """The controller was this command's own."""
    return Conflict(
        f"The controller of the project does not answer any more, so run {run_id} is no longer followed.",
        code=CODE,
        evidence=f"It was asked {MAX_SILENCES} times in a row. Ray or its processes may have been ended, or "
        "the machine may be out of memory.",
        next_step="The run's worker may go on for model_training.survive_s seconds; the next "
        "`potato-ray training run` or server takes it up.",
    )


def server_lost(run_id: str, url: str, *, at_agent: bool) -> Conflict:
    """The controller was a server's. `at_agent`: an agent has the run in hand, and only a server hears it."""
    next_step = (
        "Its agent goes on for 300 s, or heartbeat_timeout_s where that is longer; only a server takes the "
        "run up: start it again with potato-ray start."
        if at_agent
        else "The run's worker may go on for model_training.survive_s seconds; the next `potato-ray training "
        "run` or server takes it up."
    )
    return Conflict(
        f"The server has stopped, so run {run_id} is no longer followed.",
        code=CODE,
        evidence=f"{url} was asked {MAX_SILENCES} times in a row; it does not answer any more, or has no "
        "controller.",
        next_step=next_step,
    )
