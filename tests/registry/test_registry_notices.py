"""Notices of ended runs: written with the end, for every kind of end, and only when they are wanted."""

from __future__ import annotations

import pytest

from potato_ray.registry import NewRun, Registry, State
from potato_ray.registry.states import ENDED

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
HEADLINE = {"split": "val", "metric": "macro_f1", "value": 0.8}


@pytest.fixture
def registry(path, clock):
    with Registry(path, "demo", clock, notices=True) as opened:
        yield opened


@pytest.mark.parametrize("state", sorted(ENDED))
def test_every_end_leaves_one_notice_with_what_is_to_be_told(registry, run_in, clock, state):
    run = run_in(state, scores={"headline": HEADLINE}, error="It failed.", error_code="fit_failed")
    notice = registry.first_notice()
    assert notice.run_id == run.run_id
    assert notice.facts == {
        "run_id": run.run_id,
        "project": "demo",
        "state": state.value,
        "trainer": "sklearn-text",
        "schemas": ["sentiment"],
        "headline": HEADLINE,
        "error": "It failed.",
        "error_code": "fit_failed",
        "next_step": None,
        "finished_at": clock.now,
    }
    registry.settle_notice(notice, "delivered")
    assert registry.first_notice() is None


@pytest.mark.parametrize("state", [State.QUEUED, State.OFFERED])
def test_a_waiting_run_that_is_cancelled_leaves_a_notice(registry, run_in, state):
    run = run_in(state)
    assert registry.first_notice() is None
    registry.request_cancel(run.run_id)
    assert registry.first_notice().facts["state"] == "cancelled"


def test_a_run_at_work_leaves_its_notice_when_it_has_ended_and_not_before(registry, run_in):
    run = run_in(State.RUNNING)
    registry.request_cancel(run.run_id)
    assert registry.first_notice() is None
    registry.transition(run.run_id, 1, State.CANCELLED)
    registry.update(run.run_id, 1, peak_rss_mb=5.0)
    registry.settle_notice(registry.first_notice(), "delivered")
    assert registry.first_notice() is None


def test_without_a_receiver_no_notice_is_kept(path, clock):
    with Registry(path, "demo", clock) as plain:
        run = plain.create_run(NEW, queue_max=10, allow_queue=True, max_concurrent=1)
        plain.request_cancel(run.run_id)
        assert plain.first_notice() is None


def test_an_end_that_is_rolled_back_leaves_no_notice(registry, run_in, monkeypatch):
    run = run_in(State.RUNNING)

    def fail(*args):
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("potato_ray.registry.notices.to_json", fail)
        with pytest.raises(OSError, match="no space left"):
            registry.transition(run.run_id, 1, State.ERROR)
    assert registry.run(run.run_id).state is State.RUNNING
    assert registry.first_notice() is None


def test_the_notice_that_is_due_first_comes_first(registry, run_in, clock):
    first, second = (run_in(State.ERROR) for _ in range(2))
    registry.postpone_notice(registry.first_notice(), clock.now + 5, "later")
    notice = registry.first_notice()
    assert {first.run_id, second.run_id} - {notice.run_id}
    registry.postpone_notice(notice, clock.now + 30, "later still")
    assert registry.first_notice().run_id != notice.run_id
    assert registry.first_notice().tries == 1
