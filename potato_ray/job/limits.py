"""When a worker must be stopped: a pure decision over what its launcher sees each tenth of a second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping

from potato_ray.job.spec import Limits

DATA_LIMIT_FACTOR = 4
DATA_LIMIT_LEAST_MB = 4096


@dataclass(frozen=True)
class Stop:
    """An order to stop: why (one of folder.REASONS), how long SIGTERM may take, and the evidence.

    `grace_s` 0 means SIGKILL at once.
    """

    reason: str
    grace_s: float
    detail: str = ""


@dataclass(frozen=True)
class Sight:
    """What the launcher sees: `cancel` is the body of cancel.json; `lease` the lease's time of change.

    `used_mb` is the resident memory of the worker's processes; `terminated`: the launcher got a SIGTERM.
    """

    used_mb: float = 0.0
    cancel: Mapping[str, Any] | None = None
    lease: float | None = None
    terminated: bool = False
    folder_exists: bool = True


class Watch:
    """Holds one worker against its limits. `started` and every `now` are monotonic seconds."""

    def __init__(self, limits: Limits, started: float) -> None:
        self.limits = limits
        self.started = started
        self._lease: float | None = None
        self._lease_changed = started

    def verdict(self, now: float, sight: Sight) -> Stop | None:
        """The first reason to stop the worker now, or None."""
        self._note_lease(now, sight.lease)
        return (
            self._cancelled(sight)
            or self._terminated(sight)
            or self._out_of_memory(sight)
            or self._out_of_time(now)
            or self._lost(now, sight)
        )

    def _note_lease(self, now: float, lease: float | None) -> None:
        # Only that it changes counts, not its value: clocks jump, and those of two hosts differ.
        if lease != self._lease:
            self._lease = lease
            self._lease_changed = now

    def _cancelled(self, sight: Sight) -> Stop | None:
        if sight.cancel is None:
            return None
        grace = sight.cancel.get("grace_s", self.limits.grace_s)
        grace_s = float(grace) if isinstance(grace, (int, float)) else self.limits.grace_s
        return Stop("cancelled", grace_s, str(sight.cancel.get("reason", "")))

    def _terminated(self, sight: Sight) -> Stop | None:
        if not sight.terminated:
            return None
        return Stop("terminated", self.limits.grace_s, "The launcher was told to end by a SIGTERM.")

    def _out_of_memory(self, sight: Sight) -> Stop | None:
        limit = self.limits.max_ram_mb
        if limit is None or sight.used_mb <= limit:
            return None
        # At once: a process that is given time goes on allocating.
        detail = f"The worker held {sight.used_mb:.0f} MiB of memory; max_ram_mb is {limit}."
        return Stop("out_of_memory", 0.0, detail)

    def _out_of_time(self, now: float) -> Stop | None:
        limit = self.limits.max_wall_s
        if limit is None or now - self.started < limit:
            return None
        return Stop(
            "wall_clock", self.limits.grace_s, f"It ran for {now - self.started:.1f} s of {limit:g} s."
        )

    def _lost(self, now: float, sight: Sight) -> Stop | None:
        if not sight.folder_exists:
            return Stop("lost", self.limits.grace_s, "The job folder was removed.")
        silence_s = now - self._lease_changed
        if silence_s < self.limits.lost_after_s:
            return None
        return Stop("lost", self.limits.grace_s, f"Nobody renewed the lease for {silence_s:.0f} s.")


def data_limit_mb(max_ram_mb: int | None) -> int | None:
    """RLIMIT_DATA, the backstop behind the sampled limit: far enough above it to stay out of its way."""
    if max_ram_mb is None:
        return None
    return max(DATA_LIMIT_FACTOR * max_ram_mb, DATA_LIMIT_LEAST_MB)
