"""What a host is asked for once our code is there; each is a line of the table in `perform`."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

from potato_ray.host.entry import answering
from potato_ray.host.talk import Failed

_HANDED_ON = ("host", "remote_dir", "run_id", "attempt", "code", "python")
"""Of a request, to the agent's command line, which everybody on the host can read."""


def perform(request: dict[str, Any], root: Path) -> int:
    """Do what the request asks for; the exit code. `root` holds the code."""
    table = {
        "run": _run,
        "take_up": _take_up,
        "stop": _stop,
        "send_artifacts": _send_artifacts,
        "clear_up": _clear_up,
    }

    def work() -> int:
        if request["do"] not in table:
            raise Failed("bad_input", f"This version cannot do {request['do']!r}.")
        return table[request["do"]](request, root)

    return answering(request, work)


def _run(request: dict[str, Any], root: Path) -> int:
    from potato_ray.host.environment import environment_for

    python = environment_for(request)
    if not is_listened_to(0, 1):
        raise BrokenPipeError  # an agent that nobody lets in would only leave a folder
    handed_on = {**{name: request.get(name) for name in _HANDED_ON}, "python": python}
    script = str(root / "potato_ray" / "host" / "start.py")
    os.execv(sys.executable, [sys.executable, "-S", "-E", script, json.dumps(handed_on)])  # noqa: S606


def is_listened_to(reading: int, writing: int) -> bool:
    """Whether the other ends of these descriptors are open."""
    poll = select.poll()
    for descriptor in (reading, writing):
        poll.register(descriptor, 0)
    return not poll.poll(0)  # without events to wait for, a hang-up is all that there is to tell


def _take_up(request: dict[str, Any], root: Path) -> int:
    from potato_ray.host.taking_up import take_up

    return take_up(request)


def _stop(request: dict[str, Any], root: Path) -> int:
    from potato_ray.host.stopping import stop

    return stop(request)


def _send_artifacts(request: dict[str, Any], root: Path) -> int:
    from potato_ray.host.artifacts import send_artifacts

    return send_artifacts(request)


def _clear_up(request: dict[str, Any], root: Path) -> int:
    from potato_ray.host.clearing import clear_up

    return clear_up(request)
