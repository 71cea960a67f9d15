"""Runs on a host whose link is cut in every phase: they go on, or end truly on both sides."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import fake_nvidia_smi
import pytest
from fault_matrix import LOST, SUCCESS, End, cells, expected
from gpu_machine import FAKE_TORCH
from ssh_cut_lab import LOST_AFTER_S, QUICK_S, SshCutLab, host_behind_link
from ssh_fault_matrix import FOR_GOOD, HELD_IN, HOST, MATRIX, SUPERVISOR, TOLD
from ssh_killing import strike
from ssh_lab import PLUGIN
from ssh_phases import PHASES, PREDICTING, is_on, met
from whole_runs import folder_of, projects

from potato_ray.job.processes import marked
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

SHORT_S = 1.5
LONG_S = 7.0
"""More than ssh waits for a word of the host."""
SHORTLY = ("bundle",)
LONGER = ("starting", "predictions")
GIVEN_UP_S = 60.0
KEPT = ("predictions", "result", "artifacts", "clearing")
"""A model is on the host, and its agent offers a good end for as long as a server may be away."""
FOR_GOOD_SOON = ("training",)
KILLED_SOON = {("training", SUPERVISOR), ("training", HOST)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshCutLab]:
    folder = tmp_path_factory.mktemp("host")
    fake_nvidia_smi.install(folder / "bin")
    fake_nvidia_smi.write_cards(folder, (20000, 30000))
    there = {"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", "FAKE_SMI_DIR": str(folder)}
    keys = {"connect_timeout_s": 5, "env": {"PYTHONPATH": f"{PLUGIN}:{FAKE_TORCH}"}}
    with projects() as make, host_behind_link(folder / "training", make, keys, **there) as lab:
        yield lab


@pytest.fixture
def lab(running: SshCutLab) -> Iterator[SshCutLab]:
    yield running
    running.dismiss()


def some(names: tuple[str, ...], phases: tuple[str, ...] = PHASES) -> list[object]:
    """Every phase; those that are not named under ./run test --long alone."""
    return [pytest.param(each, marks=() if each in names else (pytest.mark.long,)) for each in phases]


def kills() -> list[object]:
    found = cells(MATRIX, HELD_IN)
    return [pytest.param(*each, marks=() if each in KILLED_SOON else (pytest.mark.long,)) for each in found]


def backend_for(phase: str) -> str:
    return "packed" if phase == "packages" else "gpu"


def ended_whole(lab: SshCutLab, run_id: str) -> None:
    """The run ends well with all that it has made, and leaves nothing on the host."""
    run = lab.ended(run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), (run.error, run.error_evidence, lab.log(run_id))
    lines = lab.mirror(run_id).predictions.read_bytes().splitlines()
    told = [json.loads(line)["instance_id"] for line in lines]
    stored = [each.instance_id for each in lab.reader.predictions(run_id)]
    assert sorted(told) == sorted(stored)
    assert len(set(told)) == len(told) > 2000
    assert (folder_of(lab.config, run_id).artifacts / "model.json").is_file()
    assert lab.nothing_is_left(run_id), lab.left(run_id)
    lab.sees_no_reservation()


@pytest.mark.parametrize("phase", some(SHORTLY))
def test_a_run_goes_on_after_a_short_cut(lab: SshCutLab, phase: str) -> None:
    with met(lab, phase, backend_for(phase)) as run_id:
        time.sleep(SHORT_S)
    ended_whole(lab, run_id)


# A host that cannot be connected to at all within connect_timeout_s fails the run: see FOR_GOOD.
@pytest.mark.parametrize("phase", some(LONGER, PHASES[1:]))
def test_a_run_goes_on_after_a_cut_for_which_ssh_does_not_wait(lab: SshCutLab, phase: str) -> None:
    with met(lab, phase, backend_for(phase)) as run_id:
        time.sleep(LONG_S)
        assert is_on(lab, run_id, phase)
    ended_whole(lab, run_id)


@pytest.mark.parametrize("phase", some(FOR_GOOD_SOON))
def test_a_link_that_is_cut_for_good_ends_the_run_truly_on_both_sides(lab: SshCutLab, phase: str) -> None:
    backend = "quick-packed" if phase == "packages" else "quick"
    # A run that wants a GPU is placed by a login of its own, before it would connect.
    trainer = "rehearsal" if phase == "connecting" else "accelerated"
    with met(lab, phase, backend, trainer, goes_on=False) as run_id:
        cut_at = time.monotonic()
        run = lab.ended(run_id)
        end = FOR_GOOD[phase]
        assert End(run.state, run.error_code, run.attempt) == end, (run.error, run.error_evidence)
        if end == LOST:
            told = f"No word from the agent on {backend} for {QUICK_S} seconds."
            assert run.error == told
            assert lab.mirror(run_id).agent_log.exists()
        kept_until_the_worker_ended(lab, run_id, cut_at if phase == "training" else None)
    ended_whole(lab, lab.start("succeed", backend))
    assert gone(lab, run_id, files=phase not in KEPT), lab.left(run_id)


def kept_until_the_worker_ended(lab: SshCutLab, run_id: str, cut_at: float | None) -> None:
    """The GPU is given back once no worker can be there; one that is there ends by itself."""
    assert cut_at is None or (workers(run_id) and lab.reader.reservations())
    deadline = time.monotonic() + 60.0
    while lab.reader.reservations():
        assert time.monotonic() < deadline, lab.left(run_id)
        time.sleep(0.02)
    assert workers(run_id) == []
    assert cut_at is None or time.monotonic() - cut_at >= LOST_AFTER_S


def workers(run_id: str) -> list[int]:
    return marked([f"POTATO_RAY_JOB={run_id}:1"])


def gone(lab: SshCutLab, run_id: str, *, files: bool) -> bool:
    """Whether nothing of a run is left on the host once its agent has given up; `files`: nor its folder."""
    deadline = time.monotonic() + GIVEN_UP_S
    while workers(run_id) if not files else lab.left(run_id):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@pytest.mark.parametrize(("phase", "victim"), kills())
def test_a_run_ends_as_the_table_says_when_something_is_killed(
    lab: SshCutLab, phase: str, victim: str
) -> None:
    run_id = lab.start({"training": "wait", "predicting": "hold"}[phase], trainer="accelerated")
    step = {"training": "rehearsing", "predicting": PREDICTING}[phase]
    lab.until(run_id, lambda: lab.run(run_id).step == step)
    strike(lab, run_id, victim)
    end = expected(phase, victim, MATRIX, HELD_IN)
    if end == SUCCESS:
        lab.until(run_id, lambda: TOLD.get(victim, "") in lab.log(run_id))
        lab.go(run_id)
        ended_whole(lab, run_id)
    else:
        run = lab.ended(run_id)
        assert End(run.state, run.error_code, run.attempt) == end, (run.error, run.error_evidence)
        assert lab.mirror(run_id).agent_log.exists()
        assert lab.nothing_is_left(run_id), lab.left(run_id)
    lab.sees_no_reservation()
