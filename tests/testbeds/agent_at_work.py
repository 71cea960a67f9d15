"""An agent in a thread of the test, real jobs of the playing trainer, and all its waits shortened."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from job_making import make_job
from protocol_server import ProtocolServer, Told

from potato_ray.agent.command_line import main
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.loop import Agent
from potato_ray.agent.server_contact import contacts
from potato_ray.agent.settings import Settings, Timing
from potato_ray.agent.stop_request import StopRequest
from potato_ray.agent.voice import Voice
from potato_ray.agent.workdir import Workdir
from potato_ray.job.folder import JobFolder, read_json
from potato_ray.job.follow import Follower
from potato_ray.job.processes import is_alive, kill

QUICK = Timing(
    long_poll_s=2.0,
    least_poll_s=0.05,
    first_retry_s=0.05,
    longest_retry_s=0.1,
    refused_retry_s=0.1,
    look_every_s=0.01,
    tell_every_s=0.02,
    silent_at_most_s=0.1,
    lease_every_s=0.2,
    settle_s=0.2,
    after_grace_s=3.0,
    deliver_success_s=5.0,
    last_try_s=0.5,
)
DEADLINE_S = 30.0
"""A process that begins on a busy machine takes seconds."""
ENDS_WITHIN_S = 15.0


class AgentAtWork:
    """One agent; started by its making. `settings` are fields of Settings, `timing` some of Timing."""

    def __init__(self, server: ProtocolServer, workdir: Path, **settings: Any) -> None:
        self.stop = StopRequest()
        self.said = io.StringIO()
        self.workdir = Workdir(workdir)
        timing = replace(QUICK, **settings.pop("timing", {}))
        self.settings = Settings(
            **{
                "server": server.url,
                "backend": "far",
                "workdir": workdir,
                "python": settings.pop("python", sys.executable),
                "once": True,
                "timing": timing,
                **settings,
            }
        )
        self._connection = ServerConnection(
            server.url, server.token, timeout_s=1.0, connect_s=1.0, pace_s=5.0
        )
        connect = contacts(self._connection, self.workdir, self.settings, "3.8.18")
        self.agent = Agent(self.settings, self.workdir, connect, self.stop, Voice(self.said))
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.agent.run()
        except BaseException as failure:  # noqa: BLE001 - looked at by the test
            self.failure = failure

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def join(self, within_s: float = DEADLINE_S) -> str:
        """Wait for its end; what it has said."""
        self._thread.join(within_s)
        assert self.is_done, self.said.getvalue()
        self.workdir.release()
        if self.failure is not None:
            raise self.failure
        return self.said.getvalue()

    def close(self) -> None:
        """End it, and the workers that it has left."""
        self.stop.times = 3
        self._thread.join(DEADLINE_S)
        for path in self.workdir.jobs.glob("*.1/"):
            end_job(JobFolder(path))
        self.workdir.release()
        assert self.is_done, self.said.getvalue()
        self._connection.close()

    def wait_for(self, true: Callable[[], Any], within_s: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + within_s
        while not true():
            assert time.monotonic() < deadline, self.said.getvalue()
            assert self.failure is None, self.failure
            time.sleep(0.01)

    def folder(self, run_id: str = "run-1") -> JobFolder:
        return JobFolder(self.workdir.jobs / f"{run_id}.1")


class AgentToKill:
    """An agent in a process of its own, with short waits; `kill` is kill -9."""

    def __init__(self, server: ProtocolServer, workdir: Path) -> None:
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        program = "import sys; from agent_at_work import work_alone; work_alone(*sys.argv[1:])"
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, server.url, str(workdir)],
            env={**os.environ, "PYTHONPATH": path, "POTATO_TRAINING_TOKEN": server.token},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def kill(self) -> str:
        """What it has said."""
        self.process.kill()
        return self.process.communicate(timeout=DEADLINE_S)[1]

    def end(self, *signals: int, within_s: float = ENDS_WITHIN_S) -> tuple[int, str]:
        """Send signals, a moment apart, and wait for its end: the exit code, and what it has said."""
        for number in signals:
            self.process.send_signal(number)
            time.sleep(0.3)
        said = self.process.communicate(timeout=within_s)[1]
        return self.process.returncode, said


def work_alone(url: str, workdir: str) -> None:
    """What AgentToKill runs: the command, with short waits."""
    # A background job of a shell ignores SIGINT, nohup SIGHUP; the agent, which inherits that, rightly too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    sys.exit(main(["--server", url, "--backend", "far", "--workdir", workdir], QUICK))


def end_job(folder: JobFolder) -> None:
    """Kill what works in a job folder."""
    processes = folder.read_processes()
    if processes is not None:
        kill([each.pid for each in (processes.launcher, processes.worker) if is_alive(each)])
        Follower(folder).end_remains()


def offer(
    server: ProtocolServer, tmp_path: Path, play: str = "succeed", run_id: str = "run-1", **job: Any
) -> Told:
    """Put a job of the playing trainer on offer."""
    limits = job.pop("limits", {})
    made = JobFolder(make_job(tmp_path / "made" / run_id, play, **limits).folder)
    return server.offer(run_id, read_json(made.spec) or {}, made.bundle, **job)
