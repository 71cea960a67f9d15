"""Stopping a job that was cancelled, of which its agent may not have heard: a request in its folder."""

from __future__ import annotations

import time
from typing import Any, Mapping

from potato_ray.host.run_folder import RunFolder
from potato_ray.host.talk import say
from potato_ray.job.follow import ALIVE, Follower

LOOK_EVERY_S = 0.1


def stop(request: Mapping[str, Any]) -> int:
    """Say {"stopped": {"ended", "has_artifacts"}} once the job has ended, or after `wait_s`.

    Its worker has `grace_s` to leave what it has, unless it was told to stop before.
    """
    folder = RunFolder.of(request)
    ended = True
    if folder.job.path.is_dir() and not folder.job.exit.exists():
        folder.job.request_cancel("cancelled", float(request.get("grace_s") or 0.0))
        ended = _ends(Follower(folder.job), float(request.get("wait_s") or 0.0))
    artifacts = folder.job.artifacts
    has_artifacts = artifacts.is_dir() and any(artifacts.iterdir())
    say({"stopped": {"ended": ended, "has_artifacts": has_artifacts}})
    return 0


def _ends(follower: Follower, wait_s: float) -> bool:
    ends_at = time.monotonic() + wait_s
    while follower.state() == ALIVE:
        if time.monotonic() >= ends_at:
            return False
        time.sleep(LOOK_EVERY_S)
    return True
