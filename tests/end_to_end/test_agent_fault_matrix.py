"""Every process that an agent's run needs is killed in every phase: how the run ends, and what is left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from agent_fault_matrix import FOR_GOOD, MATRIX, PHASES
from agent_scene import ACTS, BACKENDS, Scene, backend_for, held, is_in_phase
from fault_matrix import End, cells, expected
from whole_runs import add_items, projects

from potato_ray.job.folder import JobFolder, Processes
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

SOME_ITEMS = 2_000
"""So many that neither a bundle nor the predictions come in one piece."""
SOON_S = 15.0


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
    running.settle()
    yield running
    running.dismiss()


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
    assert is_in_phase(scene, scene.reader.run(run_id), phase), "it was not held there"
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
