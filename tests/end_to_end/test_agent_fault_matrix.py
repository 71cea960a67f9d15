"""Every process that an agent's run needs is killed in every phase: how the run ends, and what is left."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from agent_fault_matrix import FOR_GOOD, MATRIX, PHASES
from agent_study import Study
from fault_matrix import End, cells, expected
from holding_relay import ANSWER, REQUEST, WHOLE_ANSWER, HoldingRelay
from killing import command_of, kill
from server_process import ServerProcess
from whole_runs import add_items, folder_of, in_step, projects

from potato_ray.job import processes
from potato_ray.job.folder import JobFolder, Processes, ProcessId
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}
SOME_ITEMS = 2_000
"""So many that neither a bundle nor the predictions come in one piece."""
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
            assert not run.ended, f"ended as {run.state}: {run.error_code} {run.error} {self.said}"
            assert time.monotonic() < deadline, f"still {run.status} ({run.step}): {self.said}"
            time.sleep(0.02)
        return run

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


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One server for all cells; it is started again where it was killed."""
    with projects() as make_project:
        config = make_project(backends=BACKENDS, retain_runs=100, grace_seconds=2)
        add_items(config, SOME_ITEMS)
        scene = Scene(config, tmp_path_factory.mktemp("agent"), BACKENDS)
        scene.put_relay()
        yield scene
        scene.close()
        scene.relay.close()


@pytest.fixture
def scene(running: Scene) -> Iterator[Scene]:
    yield running
    running.dismiss()


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


# Each process in a phase in which it matters most, and each phase; the other cells under ./run test --long.
SHORT = {
    ("building", "controller"),
    ("fetching", "agent"),
    ("training", "launcher"),
    ("training", "server"),
    ("predicting", "training worker"),
    ("uploading", "agent"),
    ("delivering", "controller"),
    ("fetching", FOR_GOOD),
    ("finishing", "agent"),
}


def cell(phase: str, victim: str) -> object:
    marks = () if (phase, victim) in SHORT else (pytest.mark.long,)
    return pytest.param(phase, victim, id=f"{phase}-{victim}", marks=marks)


@pytest.mark.parametrize(("phase", "victim"), [cell(*each) for each in cells(MATRIX, PHASES)])
def test_a_run_on_an_agent_ends_as_the_table_says_when_a_process_is_killed(
    scene: Scene, phase: str, victim: str
) -> None:
    backend = backend_for(victim)
    run_id, runs = held(scene, phase, backend)
    last = scene.start("succeed", backend)
    before = {each: scene.processes_of(each) for each in runs}
    scene.kill(victim, runs[0])
    if phase in ACTS and phase != "finishing" and victim != FOR_GOOD:
        scene.go(runs[0])
    scene.replace(victim)
    ends = [scene.wait_for(each, lambda run: run.ended) for each in (*runs, last)]
    run = scene.reader.run(run_id)
    assert End(run.state, run.error_code, run.attempt) == expected(phase, victim, MATRIX, PHASES), (
        run.error,
        run.error_evidence,
        scene.said,
    )
    if phase == "on offer":  # the victim worked for the run before it
        assert End(ends[0].state, ends[0].error_code) == expected("training", victim, MATRIX, PHASES)
    assert ends[-1].state == State.SUCCESS, (ends[-1].error, scene.said)
    assert_nothing_is_left(scene, ends)
    for end in ends:
        assert_recorded(scene, end)
        if victim != FOR_GOOD or before.get(end.run_id) is None:  # what it was made in is gone otherwise
            assert_made_once(scene, end, before.get(end.run_id))
    assert len({end.bundle_digest for end in ends}) == 1


def assert_recorded(scene: Scene, run: Run) -> None:
    """Its events are there in order, and its predictions whole and once; those of a failed run not at all."""
    events = scene.reader.events(run.run_id, limit=100_000)
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    if run.state != State.SUCCESS:
        assert list(scene.reader.predictions(run.run_id)) == []
        return
    n_home = scene.mirror(run.run_id).predictions.read_bytes().count(b"\n")
    assert n_home == sum(filter(None, (run.n_val, run.n_test, run.n_unlabeled)))
    assert run.writeback is not None
    assert run.writeback["n_read"] == run.writeback["n_written"] == n_home


def assert_made_once(scene: Scene, run: Run, before: Processes | None) -> None:
    """One worker made it on the agent's machine, and each of its words came home once."""
    jobs = scene.jobs_of(run.run_id)
    assert list(jobs) == [f"{run.run_id}.{run.attempt}"]
    assert before in (None, scene.processes_of(run.run_id))
    events = scene.reader.events(run.run_id, limit=100_000)
    heard = [(event["event"], event["t"]) for event in events if event["source"] == "worker"]
    [folder] = jobs.values()
    assert heard == said_in(folder)
    assert sum("CUDA_VISIBLE_DEVICES=" in str(event.get("message")) for event in events) == 1
    if run.state == State.SUCCESS:
        assert scene.mirror(run.run_id).predictions.read_bytes() == folder.predictions.read_bytes()


def said_in(folder: JobFolder) -> list[tuple[str, float]]:
    lines = folder.events.read_text("utf-8").splitlines()
    return [(event["event"], event["t"]) for event in map(json.loads, lines)]


def assert_nothing_is_left(scene: Scene, ends: list[Run]) -> None:
    """Neither a process at the agent's, nor a job in its hands, nor a GPU, nor a packed bundle, soon."""
    assert scene.comes_to_rest(), scene.working()
    deadline = time.monotonic() + SOON_S
    while found := left(scene, ends):
        assert time.monotonic() < deadline, (found, scene.said)
        time.sleep(0.05)


def left(scene: Scene, ends: list[Run]) -> list[object]:
    mirrors = [scene.mirror(end.run_id) for end in ends]
    packed = [path for mirror in mirrors for path in (mirror.job, mirror.bundle_archive) if path.exists()]
    parts = [path for mirror in mirrors for path in mirror.path.glob(".*")]
    return [*scene.jobs_in_hand(), *scene.reader.reservations(), *packed, *parts]
