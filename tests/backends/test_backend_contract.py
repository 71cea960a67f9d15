"""What every backend keeps when it executes runs, shown on each of them: contract_places.py lists them."""

from __future__ import annotations

import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from contract_places import ContractPlace, MakeJob
from job_making import N_ROWS
from listening import Listener, cancel_after_five, left_by, lose_after_five, lose_at_once

from potato_ray.backends.base import Backend, Directive, Outcome
from potato_ray.job.folder import JobFolder

N_PREDICTIONS = N_ROWS["val"] + N_ROWS["test"] + N_ROWS["unlabeled"]
GONE_WITHIN_S = 5.0


def is_gone(backend: Backend, folder: Path) -> bool:
    """Whether the job's processes are gone, soon."""
    deadline = time.monotonic() + GONE_WITHIN_S
    while backend.alive(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not backend.alive(folder)


def explains_itself(outcome: Outcome) -> bool:
    return bool(outcome.message and outcome.next_step)


def test_a_run_succeeds_with_every_event_in_order(backend: Backend, new_job: MakeJob) -> None:
    job, heard = new_job(), Listener()
    outcome = backend.execute(job, heard)
    assert outcome.status == "success", outcome
    assert heard.steps == list(range(10))
    assert dict(outcome.result) == dict(heard.events[-1])
    lines = JobFolder(job.folder).predictions.read_text().splitlines()
    assert len(lines) == N_PREDICTIONS
    assert is_gone(backend, job.folder)


def test_each_call_of_the_sink_goes_on_where_the_one_before_it_ended(
    backend: Backend, new_job: MakeJob
) -> None:
    heard = Listener()
    backend.execute(new_job(), heard)
    number = 0
    for first_seq, n_events in heard.calls:
        assert first_seq == number
        number += n_events
    assert number == len(heard.events)


def test_a_failure_says_what_happened_and_what_to_do(backend: Backend, new_job: MakeJob) -> None:
    outcome = backend.execute(new_job("fail"), Listener())
    assert (outcome.status, outcome.error_code) == ("error", "fit_failed")
    assert "It was told to fail" in outcome.message
    assert outcome.next_step == "Tell it to succeed."


@pytest.mark.parametrize(("play", "code"), [("leave", "no_result"), ("die", "killed")])
def test_an_end_without_a_result_is_an_error_however_clean(
    backend: Backend, new_job: MakeJob, play: str, code: str
) -> None:
    job = new_job(play)
    outcome = backend.execute(job, Listener())
    assert (outcome.status, outcome.error_code) == ("error", code)
    assert explains_itself(outcome)
    assert is_gone(backend, job.folder)


def test_the_sink_is_called_every_second_while_the_worker_is_silent(
    place: ContractPlace, backend: Backend, new_job: MakeJob
) -> None:
    job = new_job("wait")
    go = threading.Timer(2.5, place.let_go, [job])
    go.start()
    heard = Listener()
    assert backend.execute(job, heard).status == "success"
    gaps = [later - earlier for earlier, later in zip(heard.called_at, heard.called_at[1:], strict=False)]
    assert max(gaps) < 1.5
    go.join()


# --- cancel ---------------------------------------------------------------------------------------


def test_a_cancelled_run_leaves_nothing_behind(backend: Backend, new_job: MakeJob) -> None:
    job = new_job("wait")
    assert backend.execute(job, Listener(cancel_after_five)).status == "cancelled"
    assert is_gone(backend, job.folder)


def test_a_cancel_that_comes_before_the_worker_says_anything_is_carried_out(
    backend: Backend, new_job: MakeJob
) -> None:
    job = new_job("wait")
    outcome = backend.execute(job, Listener(lambda heard: Directive(cancel=True, grace_s=1.0)))
    assert outcome.status == "cancelled"
    assert is_gone(backend, job.folder)


def test_a_cancel_that_came_while_nobody_followed_is_carried_out(
    place: ContractPlace, backend: Backend, new_job: MakeJob
) -> None:
    job = new_job("wait")
    left_by(backend, job, Listener(lose_after_five))
    outcome = place.backend().execute(job, Listener(cancel_after_five))
    assert outcome.status == "cancelled"
    assert is_gone(backend, job.folder)


def test_a_stubborn_worker_is_alive_until_the_grace_of_the_first_cancel_is_over(
    backend: Backend, new_job: MakeJob
) -> None:
    job, cancelled_at, alive_at = new_job("stubborn"), list[float](), list[float]()

    def cancel(heard: Listener) -> Directive:
        if heard.n_steps < 5:
            return Directive()
        now = time.monotonic()
        cancelled_at.append(now)
        alive_at.extend([now] if backend.alive(job.folder) else [])
        return Directive(cancel=True, grace_s=1.5 if len(cancelled_at) == 1 else 60.0)

    heard = Listener(cancel)
    assert backend.execute(job, heard).status == "cancelled"
    assert {note["error_code"] for note in heard.notes if note["kind"] == "ended"} <= {"cancelled"}
    assert alive_at[-1] - cancelled_at[0] > 0.4
    assert is_gone(backend, job.folder)
    assert time.monotonic() - cancelled_at[0] < 30.0


# --- lost, late and late again --------------------------------------------------------------------


def test_a_run_outlives_two_followers_and_the_third_hears_the_rest(
    place: ContractPlace, new_job: MakeJob
) -> None:
    job, steps = new_job("wait"), list[int]()
    for dies in (lose_after_five, lose_at_once):
        heard = Listener(dies)
        left_by(place.backend(), job, heard)
        assert place.backend().alive(job.folder)
        job = replace(job, first_seq=job.first_seq + len(heard.events))
        steps += heard.steps
    place.let_go(job)
    last = Listener()
    assert place.backend().execute(job, last).status == "success"
    assert last.calls[0][0] == job.first_seq
    assert steps + last.steps == list(range(10))


def test_a_follower_that_is_lost_before_the_first_word_leaves_a_run_that_the_next_one_follows(
    place: ContractPlace, new_job: MakeJob
) -> None:
    job, heard = new_job(), Listener()
    left_by(place.backend(), job, Listener(lose_at_once))
    assert place.backend().execute(job, heard).status == "success"
    assert heard.steps == list(range(10))


def test_two_followers_at_once_start_one_worker(place: ContractPlace, new_job: MakeJob) -> None:
    job, listeners = new_job(), (Listener(), Listener())
    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(lambda heard: place.backend().execute(job, heard), listeners))
    assert [outcome.status for outcome in outcomes] == ["success", "success"], outcomes
    assert [heard.steps for heard in listeners] == [list(range(10))] * 2
    lines = JobFolder(job.folder).events.read_text("utf-8").splitlines()
    assert sum('"result"' in line for line in lines) == 1


def test_a_run_that_ended_meanwhile_is_collected(place: ContractPlace, new_job: MakeJob) -> None:
    job, heard = new_job(), Listener()
    first = place.backend().execute(job, heard)
    again = Listener()
    second = place.backend().execute(replace(job, first_seq=len(heard.events)), again)
    assert second.status == "success"
    assert second.result == first.result
    assert again.events == []


def test_a_late_write_lets_the_run_go_on_with_its_new_follower(
    place: ContractPlace, new_job: MakeJob
) -> None:
    job, late = new_job("wait"), Listener(lambda heard: Directive(stale=heard.n_steps >= 5))
    outcome = place.backend().execute(job, late)
    assert outcome.status == "stale", outcome
    assert place.backend().alive(job.folder)
    place.let_go(job)
    outcome = place.backend().execute(replace(job, first_seq=len(late.events)), Listener())
    assert outcome.status == "success"


def test_a_follower_that_is_late_from_its_first_call_lets_go_at_once(
    place: ContractPlace, new_job: MakeJob
) -> None:
    job, late, heard = new_job(), Listener(lambda heard: Directive(stale=True)), Listener()
    assert place.backend().execute(job, late).status == "stale"
    assert len(late.calls) == 1
    assert place.backend().execute(job, heard).status == "success"
    assert heard.steps == list(range(10))


def test_a_late_follower_cancels_nothing(place: ContractPlace, new_job: MakeJob) -> None:
    job, late = new_job("wait"), Listener(lambda heard: Directive(stale=True, cancel=True, grace_s=0.0))
    assert place.backend().execute(job, late).status == "stale"
    place.let_go(job)
    assert place.backend().execute(job, Listener()).status == "success"


# --- what is gone ---------------------------------------------------------------------------------


def test_a_run_that_was_gone_when_somebody_came_to_follow_it_ends_as_its_place_has_it(
    place: ContractPlace, backend: Backend, new_job: MakeJob
) -> None:
    job, heard = new_job("wait"), Listener(lose_after_five)
    left_by(backend, job, heard)
    place.lose(job.folder)
    assert is_gone(backend, job.folder) is place.is_seen_alone
    for _ in range(2):
        outcome = place.backend().execute(replace(job, first_seq=len(heard.events)), Listener())
        assert (outcome.status, outcome.error_code) == place.gone_meanwhile
        assert explains_itself(outcome)
    assert is_gone(backend, job.folder)


def test_a_run_that_is_gone_while_it_is_followed_was_killed(
    place: ContractPlace, backend: Backend, new_job: MakeJob
) -> None:
    job, lost = new_job("wait"), list[Path]()

    def lose_the_worker(heard: Listener) -> Directive:
        if heard.n_steps >= 5 and not lost:
            lost.append(job.folder)
            place.lose(job.folder)
        return Directive()

    outcome = backend.execute(job, Listener(lose_the_worker))
    assert (outcome.status, outcome.error_code) == ("error", "killed")
    assert explains_itself(outcome)
    assert is_gone(backend, job.folder)


def test_a_removed_job_folder_ends_the_run(backend: Backend, new_job: MakeJob) -> None:
    job = new_job("wait")

    def remove(heard: Listener) -> Directive:
        if heard.n_steps >= 5:
            shutil.rmtree(job.folder, ignore_errors=True)
        return Directive()

    outcome = backend.execute(job, Listener(remove))
    assert (outcome.status, outcome.error_code) == ("error", "backend_failed")
    assert explains_itself(outcome)


def test_what_never_ran_holds_nothing(backend: Backend, new_job: MakeJob, tmp_path: Path) -> None:
    assert not backend.alive(new_job().folder)
    assert not backend.alive(tmp_path / "no such folder")
