"""The agent's own machine as the place where a job's worker runs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from potato_ray.agent.card_choice import check_cards, with_card
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.launching import launch
from potato_ray.agent.preloading import Preloading
from potato_ray.agent.settings import Settings
from potato_ray.agent.voice import Voice
from potato_ray.agent.workplace import Workplace
from potato_ray.job.folder import Processes
from potato_ray.job.follow import STARTING, Follower
from potato_ray.job.processes import is_alive


class OwnMachine(Workplace):
    """A launcher and a worker beside the agent."""

    def __init__(self, held: HeldJob, settings: Settings, voice: Voice) -> None:
        self.python = settings.python
        self.after_grace_s = settings.timing.after_grace_s
        self._held = held
        self._folder = held.folder
        self._settings = settings
        self._timing = settings.timing
        self._voice = voice
        self._follower = Follower(held.folder)
        self._ahead = Preloading()

    def has_started(self) -> bool:
        return self._follower.state() != STARTING

    def prepare(self, code: Path) -> None:
        self._ahead.start(self._held.job.spec, code, self._settings.python, self._settings.workdir)

    def spec(self) -> dict[str, Any]:
        spec = with_card(self._held.job.spec)
        check_cards(self._held.job.spec, self._settings.min_free_gpu_mb)
        return spec

    def start(self, code: Path) -> None:
        """Start the worker, or give the job to the one that has loaded everything."""
        if not self._ahead.take(self._folder):
            launch(self._folder, code, self._settings.python, self._timing.launch_s)
        self._ahead.close()

    def state(self) -> str:
        return self._follower.state()

    def cancel(self, why: str, grace_s: float) -> None:
        """Ask the launcher to stop the worker, again and again until the request is on disk."""
        try:
            self._folder.request_cancel(why, grace_s)
        except OSError:
            pass  # tried again at the next look

    def end(self) -> None:
        """Kill what a launcher that is gone, or does not end, has left."""
        processes = self._folder.read_processes()
        if processes is None:
            return
        self._kill_launcher(processes)
        left = self._follower.end_remains()
        if left:
            pids = ", ".join(map(str, left))
            self._voice.say(f"these processes of the job could not be ended: {pids}")

    def close(self) -> None:
        self._ahead.close()

    def _kill_launcher(self, processes: Processes) -> None:
        launcher = processes.launcher
        deadline = time.monotonic() + self._timing.settle_s
        while is_alive(launcher) and time.monotonic() < deadline:
            os.kill(launcher.pid, signal.SIGKILL)
            time.sleep(self._timing.look_every_s)
