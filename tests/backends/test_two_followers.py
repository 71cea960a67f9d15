"""Two that follow one run on a host at once: what one of them ends and clears up, the other looks for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_places import PLACES, ContractPlace, MakeJob
from listening import Listener

from potato_ray.backends.base import Job, Outcome
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.host_leaving import Leaving
from potato_ray.backends.remote_note import NAME, read_note
from potato_ray.job.folder import JobFolder

DEADLINE_S = 60.0


@pytest.fixture(params=["ssh", "slurm"])
def place(request: pytest.FixtureRequest) -> ContractPlace:
    return PLACES[request.param](request)


def let_happen(monkeypatch: pytest.MonkeyPatch, moment: str, job: Job, happens: Callable[[], Any]) -> None:
    """Let something happen once to whoever follows that job: before it looks for an agent or starts one, or
    when it has found one."""
    method, has_come = getattr(HostAgent, moment), threading.Event()

    def called(self: HostAgent, *given: Any, **named: Any) -> Any:
        if has_come.is_set() or self.job is not job:
            return method(self, *given, **named)
        has_come.set()
        found = self._state(*given) if moment == "_state" else None  # it keeps its socket for the moment
        happens()
        return found or method(self, *given, **named)

    monkeypatch.setattr(HostAgent, moment, called)


def heard_of(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """What a method of HostAgent returns from now on."""
    method, returned = getattr(HostAgent, name), list[Any]()

    def called(self: HostAgent, *given: Any) -> Any:
        returned.append(method(self, *given))
        return returned[-1]

    monkeypatch.setattr(HostAgent, name, called)
    return returned


@pytest.mark.parametrize(
    ("moment", "knows"), [("_state", True), ("_state", False), ("_found", True), ("_start", False)]
)
def test_a_run_that_another_follower_ends_meanwhile_is_heard_to_its_end_and_not_run_again(
    place: ContractPlace, new_job: MakeJob, monkeypatch: pytest.MonkeyPatch, moment: str, knows: bool
) -> None:
    """`knows`: the second one follows when the first has noted what it has on the host."""
    job, first, second = new_job("wait"), Listener(), Listener()
    let_in = heard_of(monkeypatch, "_let_in")

    def end(begun: Future[Outcome]) -> None:
        place.let_go(job)
        begun.result(DEADLINE_S)

    with ThreadPoolExecutor(1) as pool:
        begun = pool.submit(place.backend().execute, job, first)
        wait_for(lambda: first.n_steps >= 5)
        if not knows:
            (job.folder / NAME).unlink()
        again = replace(job)
        let_happen(monkeypatch, moment, again, lambda: end(begun))
        outcomes = [place.backend().execute(again, second), begun.result(DEADLINE_S)]
    assert outcomes[0] == outcomes[1]
    assert outcomes[0].status == "success"
    assert second.steps == first.steps == list(range(10))
    assert [answer for answer in let_in if answer] == [True]
    assert_all_is_home(job)


def test_two_that_leave_at_once_bring_the_model_home_once_and_say_the_same(
    place: ContractPlace, new_job: MakeJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, listeners, both = new_job(), (Listener(), Listener()), threading.Barrier(2, timeout=DEADLINE_S)
    from_here = Leaving.from_here

    def leave(self: Leaving, outcome: Outcome) -> Outcome:
        both.wait()
        return from_here(self, outcome)

    monkeypatch.setattr(Leaving, "from_here", leave)
    copies = heard_of(monkeypatch, "copy_artifacts")
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda heard: place.backend().execute(job, heard), listeners))
    assert outcomes[0] == outcomes[1]
    assert (outcomes[0].status, outcomes[0].artifact_uri) == ("success", "")
    assert len(copies) == 1
    assert_all_is_home(job)


def assert_all_is_home(job: Job) -> None:
    """The model is here, and nothing of the run on its host."""
    home = {path.name for path in JobFolder(job.folder).artifacts.iterdir()}
    assert home == {"model.json", "predictions.jsonl"}
    note = read_note(job.folder)
    assert note is not None
    assert (note.cleared, note.keep) == (True, False)
    folder = Path(note.remote_dir, "runs", f"{job.run_id}.1")
    wait_for(lambda: not folder.exists())  # of an agent that was started late, and got nothing to do


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
