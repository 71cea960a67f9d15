"""The backend `agent`: a machine that the server cannot reach, where an agent asks for work."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from potato_ray.backends.agent_check import report
from potato_ray.backends.agent_following import AgentFollowing
from potato_ray.backends.base import CheckReport, EventSink, Job, Outcome, Placement, Refusal
from potato_ray.backends.endings import limits_of
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.reading import RegistryReader


@dataclass(frozen=True)
class AgentSettings:
    """What the configuration says of an agent backend. `reader` tells of its token and its agents."""

    description: str
    reader: RegistryReader
    device: str = "auto"
    heartbeat_timeout_s: float = 120.0


class AgentBackend:
    """Runs on whatever machine's agent asks first; the server only follows what the agent sends home."""

    def __init__(
        self,
        name: str,
        settings: AgentSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.type = "agent"
        self.settings = settings
        self._clock = clock
        self._sleep = sleep
        self._wall_clock = wall_clock

    def check(self) -> CheckReport:
        """What is known of its token and its agents; nothing is asked of them."""
        reader = self.settings.reader
        return report(
            self.name,
            self.settings.description,
            reader.token_of(self.name),
            reader.agents(self.name),
            self._wall_clock(),
        )

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        """Wherever an agent asks; the GPUs there are not ours to give away."""
        device = self.settings.device if uses_gpu else "cpu"
        return Placement(self.name, device, step=f"{self.name}: on the machine whose agent asks first")

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        """Follow what the agent sends home into the run's folder, to the end."""
        return AgentFollowing(
            job,
            sink,
            name=self.name,
            heartbeat_timeout_s=self.settings.heartbeat_timeout_s,
            clock=self._clock,
            wall_clock=self._wall_clock,
            sleep=self._sleep,
        ).run()

    def alive(self, folder: Path) -> bool:
        """Whether a worker may live over there."""
        return agent_may_live(folder, self._wall_clock())


def agent_may_live(folder: Path, now: float) -> bool:
    """Whether a worker may live where an agent has the run in hand; `now` is epoch seconds.

    It does when the agent said so last. One that is silent has ended it by itself after a while, or the
    launcher has.
    """
    mirror = MirrorFolder(folder)
    if mirror.result.exists() or not mirror.claim.exists() or not mirror.says_working():
        return False
    return now - (touched_at(mirror.heartbeat) or 0.0) < gone_after_s(mirror)


def touched_at(path: Path) -> float | None:
    """When a file was touched last, in epoch seconds; None where there is none."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def gone_after_s(mirror: MirrorFolder) -> float:
    """Seconds of silence after which nothing can be alive: the agent, or else the launcher, gives up."""
    limits = limits_of(mirror)
    return limits.lost_after_s + limits.grace_s
