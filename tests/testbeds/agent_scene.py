"""A study in which each process can be held up or killed, and runs that are held in a phase of their way.

building                          the Ray workers that wait for a task are stopped
fetching, uploading, delivering   the relay between agent and server holds what it passes on
training, predicting              the trainer waits for a file
finishing                         a pipe lies in place of a file that scoring reads
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from agent_fault_matrix import FOR_GOOD
from agent_study import Study
from holding_relay import ANSWER, REQUEST, WHOLE_ANSWER, HoldingRelay
from killing import command_of, kill
from server_process import API, ServerProcess
from whole_runs import folder_of, in_step

from potato_ray.job import processes
from potato_ray.job.folder import JobFolder, Processes, ProcessId
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}
DEADLINE_S = 120.0
SOON_S = 15.0
WITH_AN_AGENT = ("agent", "training machine", FOR_GOOD)
ACTS = {"on offer": "wait", "training": "wait", "predicting": "hold", "finishing": "wait"}
HELD = {
    "fetching": ("/bundle", ANSWER),
    "uploading": ("/predictions", REQUEST),
    "delivering": ("/result", REQUEST),
    "finishing": ("/result", WHOLE_ANSWER),
}


class Scene(Study):
    """A study whose agents reach the server by a relay; each process in it can be held up or killed."""

    relay: HoldingRelay
    stopped: list[ProcessId]
    blocked: Path | None

    def put_relay(self) -> None:
        self.relay = HoldingRelay(httpx.URL(self.server.url).port or 0)
        self.address = self.relay.url
        self.stopped = []
        self.blocked = None

    def mirror(self, run_id: str) -> MirrorFolder:
        return MirrorFolder(folder_of(self.config, run_id).path)

    def wait_for(self, run_id: str, true_of: Callable[[Run], bool]) -> Run:
        deadline = time.monotonic() + DEADLINE_S
        while not true_of(run := self.reader.run(run_id)):
            assert not run.ended, f"ended as {run.state}: {run.error} {self.told(run_id)}"
            assert time.monotonic() < deadline, f"still {run.status} ({run.step}): {self.told(run_id)}"
            time.sleep(0.02)
        return run

    def told(self, run_id: str) -> str:
        """What is known of a run that did not go as it should."""
        events = "\n".join(map(str, self.reader.events(run_id, limit=1_000)))
        return f"{self.said}\n{events}"

    @property
    def said(self) -> str:
        return "\n".join(["server:", self.server.said, "agents:", *(agent.said for agent in self.agents)])

    def processes_of(self, run_id: str) -> Processes | None:
        """Who works for a run, on the agents' machine."""
        found = [folder.read_processes() for folder in self.jobs_of(run_id).values()]
        return next((each for each in found if each is not None), None)

    def hold_build(self) -> None:
        """SIGSTOP of the Ray workers that wait for a task: the next task begins, and comes to no end."""
        self.server.wait_until(lambda: bool(idle_workers(self.server)))
        self.stopped = idle_workers(self.server)
        for process in self.stopped:
            os.kill(process.pid, signal.SIGSTOP)

    def hold_scoring(self, run_id: str) -> None:
        """A pipe in place of a file that scoring reads: whoever opens it waits for somebody who writes."""
        self.blocked = self.mirror(run_id).answers
        self.blocked.rename(kept_beside(self.blocked))
        os.mkfifo(self.blocked)

    def let_go(self, lost: bool) -> None:
        """Let go on what was held up; `lost`: what an agent or a server was about to send is lost with it."""
        self.relay.let_go(lost)
        for process in filter(processes.is_alive, self.stopped):
            os.kill(process.pid, signal.SIGCONT)
        self.stopped = []
        path, self.blocked = self.blocked, None
        if path is not None:
            with path.open("r+b", buffering=0) as pipe:  # does not wait for a reader: he may be dead
                kept_beside(path).replace(path)
                pipe.write(path.read_bytes())

    def kill(self, victim: str, run_id: str) -> None:
        """kill -9. What is held is lost with the one who sent it, and goes on otherwise."""
        if victim == "server":
            see_killed(self.server.processes())
        elif victim == "controller":
            kill(self.server, victim)
        else:
            see_killed(self.victims_there(victim, run_id))
        if victim == FOR_GOOD:
            shutil.rmtree(self.workdir)
        self.let_go(lost=victim in (*WITH_AN_AGENT, "server"))

    def victims_there(self, victim: str, run_id: str) -> list[int]:
        """The processes on the agents' machine that are to be killed."""
        if victim == "agent":
            return [self.agents[-1].process.pid]
        if victim in WITH_AN_AGENT:
            return self.agents[-1].left()
        working = self.processes_of(run_id)
        assert working is not None
        return [working.launcher.pid if victim == "launcher" else working.worker.pid]

    def replace(self, victim: str) -> None:
        """What somebody, or a service manager, does then; the rest comes back by itself, or has not to."""
        if victim in WITH_AN_AGENT:
            self.agent("--keep", backend=backend_for(victim))
        elif victim == "server":
            self.restart()

    def dismiss(self) -> None:
        self.let_go(lost=True)
        super().dismiss()

    def settle(self) -> None:
        """Have a server, and no run under way: what a test that failed has left."""
        if self.server.process.poll() is not None:
            self.restart()
        for run in self.reader.unfinished():
            self.post(f"{API}/runs/{run.run_id}/cancel", {})
        self.server.wait_until(lambda: not self.reader.unfinished())


def idle_workers(server: ServerProcess) -> list[ProcessId]:
    idle = [pid for pid in server.processes() if command_of(pid).startswith("ray::IDLE")]
    return [process for process in map(processes.identify, idle) if process is not None]


def kept_beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.kept")


def see_killed(pids: list[int]) -> None:
    known = [process for process in map(processes.identify, pids) if process is not None]
    processes.kill([process.pid for process in known])
    deadline = time.monotonic() + SOON_S
    while any(map(processes.is_alive, known)):
        assert time.monotonic() < deadline, f"{pids} survive SIGKILL"
        time.sleep(0.01)


def backend_for(victim: str) -> str:
    """Where the run is; an agent that does not come back is waited for."""
    return "quick" if victim == FOR_GOOD else "ws"


def held(scene: Scene, phase: str, backend: str) -> tuple[str, list[str]]:
    """A run that is kept in the phase; (its id, it and the one before it that the agent works for)."""
    hold = scene.relay.hold(*HELD[phase]) if phase in HELD else None
    if phase == "building":
        scene.hold_build()
    scene.agent("--keep", backend=backend)
    runs = [scene.start(ACTS.get(phase, "succeed"), backend)]
    if phase == "on offer":
        scene.wait_for(runs[0], in_step("rehearsing"))
        runs.append(scene.start("succeed", backend))
    if phase == "finishing":
        scene.wait_for(runs[0], in_step("rehearsing"))
        scene.hold_scoring(runs[0])
        scene.go(runs[0])
    if hold is not None:
        assert hold.met.wait(DEADLINE_S), f"no request came for {hold.path}: {scene.said}"
    scene.wait_for(runs[-1], lambda run: is_in_phase(scene, run, phase))
    return runs[-1], runs


def is_in_phase(scene: Scene, run: Run, phase: str) -> bool:
    """Whether the run is where it is to be met; what is held keeps it there."""
    mirror, jobs = scene.mirror(run.run_id), list(scene.jobs_of(run.run_id).values())
    in_hand = jobs[0] if jobs else JobFolder("/nowhere")
    return {
        "on offer": lambda: run.state == State.OFFERED,
        "building": lambda: run.state == State.BUILDING and mirror.claim.exists(),
        "fetching": lambda: run.state == State.RUNNING and is_partly_there(in_hand.path, ".*.part"),
        "training": lambda: run.step == "rehearsing",
        "predicting": lambda: run.state == State.EVALUATING and not in_hand.exit.exists(),
        "uploading": lambda: in_hand.exit.exists() and is_partly_there(mirror.path, ".predictions.*.part"),
        "delivering": lambda: mirror.predictions.exists() and not mirror.result.exists(),
        "finishing": lambda: run.state == State.FINISHING and mirror.result.exists(),
    }[phase]()


def is_partly_there(folder: Path, pattern: str) -> bool:
    return any(path.stat().st_size for path in folder.glob(pattern))
