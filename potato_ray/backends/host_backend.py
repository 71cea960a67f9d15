"""What all backends have in common whose server logs in to a host and starts an agent there for each run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from potato_ray.backends.agent import agent_may_live, gone_after_s, touched_at
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.grants import Means
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.host_line import HostLine
from potato_ray.backends.host_settings import HostSettings
from potato_ray.backends.remote_note import NAME, read_note
from potato_ray.backends.ssh_run import SshRun
from potato_ray.errors import PotatoRayError, RunFailed
from potato_ray.mirror.folder import MirrorFolder

S = TypeVar("S", bound=HostSettings)


class HostBackend(Generic[S]):
    """Runs by way of a host; `means` is what its runs need of the server, None for who only looks."""

    type: str

    def __init__(
        self,
        name: str,
        settings: S,
        means: Means | None = None,
        *,
        line: HostLine | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.settings = settings
        self._means = means
        self._line = line or HostLine(settings.destination)
        self._clock = clock
        self._sleep = sleep
        self._wall_clock = wall_clock

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        """Run the job there, or follow it where it is under way, to its end."""
        return self._run(job, sink).run()

    def cancel(self, job: Job, sink: EventSink) -> PotatoRayError | None:
        """End what a job that nobody follows has there, bring home what it saved; see SshRun.cancelled."""
        return self._run(job, sink).cancelled()

    def alive(self, folder: Path) -> bool:
        """Whether a process of this job may live over there: until it was cleared up, or is long silent.

        An agent that is about to start a worker says nothing of one yet; its GPU is not free.
        """
        note = read_note(folder)
        if note is None:
            return agent_may_live(folder, self._wall_clock())
        mirror = MirrorFolder(folder)
        if note.cleared or mirror.result.exists():
            return False
        heard_at = touched_at(mirror.heartbeat)
        since = heard_at if heard_at is not None else touched_at(folder / NAME) or 0.0
        return self._wall_clock() - since < gone_after_s(mirror)

    def close(self) -> None:
        """Log out."""
        self._line.close()

    def _run(self, job: Job, sink: EventSink) -> SshRun:
        if self._means is None:
            raise RunFailed("This process may only look at the host.", code="backend_failed")
        agent = HostAgent(job, self.name, self.settings, self._means)
        return SshRun(agent, job, sink, clock=self._clock, sleep=self._sleep)
