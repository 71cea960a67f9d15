"""Every process that a run needs is killed in every phase: how the run ends, and that nothing is left."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from fault_matrix import End, cells, expected
from gpu_machine import give_gpus
from killing import freeze, kill, thaw
from server_process import ServerProcess
from whole_runs import add_items, folder_of, reader_of

from potato_ray.config import ProjectConfig, load
from potato_ray.job import processes
from potato_ray.job.folder import Processes
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

TESTS = Path(__file__).parent.parent
MANY_ITEMS = 15_000
"""So many that building and writing back can be met in the middle."""
DEADLINE_S = 60.0
RELEASED_WITHIN_S = 15.0
HELD_BY = {"queued": "wait", "running": "wait", "evaluating": "hold"}


class House:
    """A project with one GPU and one server, which is started again when it was killed."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.reader = reader_of(config)
        self._servers: list[ServerProcess] = []

    @property
    def server(self) -> ServerProcess:
        """The server that lives; each test begins with one that is ready."""
        if not self._servers or self._servers[-1].process.poll() is not None:
            self._servers.append(ServerProcess(self.config))
        return self._servers[-1]

    def start(self, act: str) -> str:
        return self.server.wait_ready().start_run(act, "accelerated")

    def wait_for(self, run_id: str, true_of: Callable[[Run], bool]) -> Run:
        deadline = time.monotonic() + DEADLINE_S
        while not true_of(run := self.reader.run(run_id)):
            assert not run.ended, f"ended as {run.state}: {run.error_code} {run.error} {run.error_evidence}"
            assert time.monotonic() < deadline, f"still {run.status} ({run.step}): {self.server.said}"
            time.sleep(0.005)
        return run

    def processes_of(self, run_id: str) -> Processes | None:
        return folder_of(self.config, run_id).read_processes()

    def close(self) -> None:
        for server in self._servers:
            server.close()


@pytest.fixture(scope="module")
def one_card(rehearsal_trainers: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A machine with one GPU, for every process that is started from here."""
    folder = tmp_path_factory.mktemp("card")
    with pytest.MonkeyPatch.context() as patch:
        give_gpus(patch, folder, [30000])
        yield


@pytest.fixture(scope="module", params=["few items", "many items"])
def house(request: pytest.FixtureRequest, one_card: None) -> Iterator[House]:
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    shutil.copytree(TESTS / "projects" / "review-sentiment", folder / "p")
    path = folder / "p" / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["model_training"].update(retain_runs=100, grace_seconds=2)
    path.write_text(yaml.safe_dump(body), "utf-8")
    config = load(path)
    if request.param == "many items":
        add_items(config, MANY_ITEMS)
    house = House(config)
    yield house
    house.close()
    shutil.rmtree(folder, ignore_errors=True)


def in_phase(phase: str) -> Callable[[Run], bool]:
    """Whether a run is in the middle of a phase."""
    return {
        "queued": lambda run: run.state == State.QUEUED and run.position > 0,
        "building": lambda run: run.state == State.BUILDING and run.current > 0,
        "running": lambda run: run.step == "rehearsing",
        "evaluating": lambda run: run.state == State.EVALUATING,
        "finishing": lambda run: run.state == State.FINISHING,
    }[phase]


def held(house: House, phase: str) -> tuple[str, list[str], str]:
    """A run in the phase; (its id, it and those before it, one that was started behind it or "")."""
    runs = [house.start(HELD_BY.get(phase, "succeed"))]
    # A build is soon over: the run behind it is started ahead.
    last = house.start("succeed") if phase == "building" else ""
    if phase == "queued":
        house.wait_for(runs[0], in_phase("running"))
        runs.append(house.start("succeed"))
    house.wait_for(runs[-1], in_phase(phase))
    return runs[-1], runs, last


# Each process in a phase in which it matters most, and each phase; the other cells under ./run test --long.
SHORT = {
    ("queued", "server"),
    ("building", "server"),
    ("building", "Ray worker"),
    ("building", "launcher"),
    ("running", "controller"),
    ("running", "supervising task"),
    ("running", "launcher"),
    ("evaluating", "training worker"),
    ("evaluating", "raylet"),
    ("finishing", "controller"),
    ("finishing", "Ray worker"),
    ("finishing", "server"),
}


def cell(phase: str, victim: str) -> object:
    items = "many items" if phase in ("building", "finishing") else "few items"
    marks = () if (phase, victim) in SHORT else (pytest.mark.long,)
    return pytest.param(items, phase, victim, id=f"{phase}-{victim}", marks=marks)


@pytest.mark.parametrize(
    ("house", "phase", "victim"), [cell(phase, victim) for phase, victim in cells()], indirect=["house"]
)
def test_a_run_ends_as_the_table_says_when_a_process_is_killed(house: House, phase: str, victim: str) -> None:
    run_id, runs, last = held(house, phase)
    frozen = freeze(house.server, f"{phase} task") if phase in ("building", "finishing") else []
    before = {each: house.processes_of(each) for each in runs}
    if phase not in ("building", "finishing"):
        last = house.start("succeed")
    try:
        kill(house.server, victim)
    finally:
        thaw(frozen)
    (folder_of(house.config, runs[0]).path / "go").touch()
    last = last or house.start("succeed")
    assert house.server.health()["status"] == "ok"
    end_of_all = [house.wait_for(each, lambda run: run.ended) for each in (*runs, last)]
    run = house.reader.run(run_id)
    assert End(run.state, run.error_code, run.attempt) == expected(phase, victim), run.error_evidence
    if phase == "queued":  # the victim worked for the run before it
        assert End(end_of_all[0].state, end_of_all[0].error_code) == expected("running", victim)
    assert end_of_all[-1].state == State.SUCCESS, end_of_all[-1].error
    for ended in end_of_all:
        assert_whole(house, ended, before.get(ended.run_id))
    assert len({ended.bundle_digest for ended in end_of_all}) == 1
    assert_nothing_is_held(house, [ended.run_id for ended in end_of_all])


def assert_whole(house: House, run: Run, before: Processes | None) -> None:
    """One worker did it, every event of it is there once and in order, and so is every prediction."""
    processes_now = house.processes_of(run.run_id)
    assert before in (None, processes_now)
    events = house.reader.events(run.run_id, limit=100_000)
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    heard = [(event["event"], event["t"]) for event in events if event["source"] == "worker"]
    assert heard == said_by_the_worker(house, run)
    assert sum("CUDA_VISIBLE_DEVICES=" in str(event.get("message")) for event in events) == 1
    if run.state == State.SUCCESS:
        assert_written_back(house, run)
    else:
        assert "exit.json was not written" in run.error_evidence or "MiB" in run.error_evidence


def said_by_the_worker(house: House, run: Run) -> list[tuple[str, float]]:
    lines = folder_of(house.config, run.run_id).events.read_text("utf-8").splitlines()
    return [(event["event"], event["t"]) for event in map(json.loads, lines)]


def assert_written_back(house: House, run: Run) -> None:
    n_predictions = len(folder_of(house.config, run.run_id).predictions.read_text("utf-8").splitlines())
    assert n_predictions == sum(filter(None, (run.n_val, run.n_test, run.n_unlabeled)))
    assert run.writeback is not None
    assert run.writeback["n_read"] == run.writeback["n_written"] == n_predictions


def assert_nothing_is_held(house: House, runs: list[str]) -> None:
    """No process of these runs lives, and no GPU is reserved, soon."""
    marks = [mark for each in runs if (found := house.processes_of(each)) for mark in found.markers]
    deadline = time.monotonic() + RELEASED_WITHIN_S
    while processes.marked(marks) or house.reader.reservations():
        assert time.monotonic() < deadline, (processes.marked(marks), house.reader.reservations())
        time.sleep(0.05)
