"""What a run says: numbered once, in order, and reflected on its row."""

from __future__ import annotations

import pytest

from potato_ray.errors import Conflict
from potato_ray.registry import State
from potato_ray.run_log import log_line, log_lines


def said(*names):
    return [{"v": 1, "event": "log", "t": 1.0, "level": "info", "message": name} for name in names]


def messages(reader, run):
    return [event["message"] for event in reader.events(run.run_id)]


def test_events_come_back_as_they_were_said_with_their_number(registry, run_in, reader):
    run = run_in(State.RUNNING)
    assert not registry.record_events(
        run.run_id, 1, 0, [{"v": 1, "event": "metric", "t": 2.5, "name": "loss", "value": 1}]
    )
    assert reader.events(run.run_id) == [
        {"id": 1, "attempt": 1, "source": "worker", "t": 2.5, "event": "metric", "name": "loss", "value": 1}
    ]


def test_a_batch_sent_again_is_stored_once(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, said("a", "b"))
    registry.record_events(run.run_id, 1, 0, said("a", "b"))
    registry.record_events(run.run_id, 1, 1, said("b", "c"))
    assert messages(reader, run) == ["a", "b", "c"]
    assert reader.last_seq(run.run_id) == registry.run(run.run_id).last_seq == 3


def test_a_gap_is_said_in_the_log_and_in_the_warnings(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 4, said("e"))
    assert messages(reader, run) == ["4 events of the worker were lost here.", "e"]
    assert registry.run(run.run_id).warnings == ("4 events of the worker were lost here.",)
    assert registry.run(run.run_id).last_seq == 5


def test_events_are_paged(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, said(*map(str, range(2500))))
    first = reader.events(run.run_id, limit=1000)
    second = reader.events(run.run_id, after=first[-1]["id"], limit=2000)
    assert [event["message"] for event in first + second] == list(map(str, range(2500)))
    assert reader.events(run.run_id, after=2500) == []


def test_the_row_follows_status_progress_and_metrics(registry, run_in):
    run = run_in(State.RUNNING)
    registry.record_events(
        run.run_id,
        1,
        0,
        [
            {"event": "status", "phase": "fitting", "step": "epoch 1"},
            {"event": "progress", "current": 3, "total": 10, "eta_s": 7.5},
            {"event": "metric", "name": "train_loss", "value": 0.5, "step": 1},
            {"event": "metric", "name": "train_loss", "value": 0.25, "step": 2},
            {"event": "result", "metrics": {"n_train": 94.0}},
        ],
    )
    now = registry.run(run.run_id)
    assert (now.phase, now.step, now.current, now.total, now.eta_s) == ("fitting", "epoch 1", 3.0, 10.0, 7.5)
    assert now.metrics == {"train_loss": 0.25, "n_train": 94.0}


def test_a_step_without_a_phase_leaves_the_phase(registry, run_in):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [{"event": "status", "phase": "fitting", "step": "a"}])
    registry.record_note(run.run_id, 1, {"event": "status", "step": "copying"})
    now = registry.run(run.run_id)
    assert (now.phase, now.step) == ("fitting", "copying")


def test_warnings_are_collected_once_each_and_only_so_many(registry, run_in):
    run = run_in(State.RUNNING)
    many = [{"event": "log", "level": "warning", "message": f"w{number % 150}"} for number in range(300)]
    registry.record_events(run.run_id, 1, 0, many)
    assert registry.run(run.run_id).warnings == tuple(f"w{number}" for number in range(100))


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"event": None, "t": "yesterday"},
        {"event": "progress", "current": "x", "total": float("nan"), "eta_s": True},
        {"event": "metric", "name": 3, "value": float("inf")},
        {"event": "result", "metrics": [1]},
        {"event": "log", "level": "warning", "message": "\ud800"},
        {"event": "status", "phase": 1, "step": None},
    ],
)
def test_an_odd_event_is_stored_and_breaks_nothing(registry, run_in, reader, odd):
    run = run_in(State.RUNNING)
    assert not registry.record_events(run.run_id, 1, 0, [odd])
    assert len(reader.events(run.run_id)) == 1
    assert reader.run(run.run_id).last_seq == 1


@pytest.mark.parametrize("state", [State.SUCCESS, State.ERROR, State.CANCELLED, State.INTERRUPTED])
def test_a_worker_that_speaks_after_the_end_is_stale(registry, run_in, reader, state):
    run = run_in(state)
    before = reader.events(run.run_id)
    assert registry.record_events(run.run_id, 1, 0, said("late"))
    assert reader.events(run.run_id) == before


def test_the_log_says_that_a_run_was_cancelled_and_whether_it_ever_began(registry, queue_run, run_in, reader):
    began = run_in(State.RUNNING)
    registry.request_cancel(began.run_id)
    registry.transition(began.run_id, 1, State.CANCELLED)
    waiting = queue_run()
    registry.request_cancel(waiting.run_id)
    (said_last,) = reader.events(waiting.run_id)
    assert (said_last["message"], said_last["source"]) == ("It was cancelled while it waited.", "server")
    assert [event["message"] for event in reader.events(began.run_id)] == ["It was cancelled."]


def test_the_log_names_the_reason_of_an_end_that_the_worker_does_not_know(registry, run_in, reader):
    run = run_in(State.RUNNING)
    reason = {"error": "Stopped: too long.", "error_code": "wall_clock", "error_next_step": "Raise it."}
    registry.transition(run.run_id, 1, State.ERROR, **reason)
    (told,) = reader.events(run.run_id)
    assert (
        log_line({**told, "t": 0}) == "1970-01-01T00:00:00Z ERROR (wall_clock): Stopped: too long. Raise it."
    )
    assert reader.run(run.run_id).warnings == ()


def test_an_error_that_the_worker_has_told_is_not_told_twice(registry, run_in, reader):
    run = run_in(State.RUNNING)
    told = {"event": "error", "code": "fit_failed", "message": "It broke.", "next_step": "Look."}
    registry.record_events(run.run_id, 1, 0, [told])
    registry.transition(run.run_id, 1, State.ERROR, error="It broke.", error_code="fit_failed")
    assert [event["source"] for event in reader.events(run.run_id)] == ["worker"]


def test_a_new_attempt_counts_its_worker_events_from_zero(registry, run_in, reader):
    run = run_in(State.BUILDING)
    registry.record_events(run.run_id, 1, 0, said("a", "b"))
    registry.transition(run.run_id, 1, State.QUEUED)
    registry.begin(run.run_id, None, 1)
    assert reader.last_seq(run.run_id) == 0
    registry.record_events(run.run_id, 2, 0, said("c"))
    assert [(event["id"], event["attempt"]) for event in reader.events(run.run_id)] == [
        (1, 1),
        (2, 1),
        (3, 2),
    ]


def test_a_note_after_the_end_is_kept_and_leaves_the_step_line(registry, run_in, reader, clock):
    run = run_in(State.ERROR)
    registry.record_note(run.run_id, 1, {"event": "status", "step": "still here"})
    registry.record_note(run.run_id, 1, {"event": "progress", "current": 1, "total": 2})
    registry.record_note(run.run_id, 1, {"event": "log", "level": "info", "message": "GPU released"})
    events = reader.events(run.run_id)
    assert [(event["source"], event["t"]) for event in events] == [("server", clock.now)] * 3
    assert (registry.run(run.run_id).step, registry.run(run.run_id).total) == ("", 0.0)


def test_progress_of_a_build_needs_no_event(registry, run_in, reader):
    run = run_in(State.BUILDING)
    registry.note_progress(run.run_id, 1, "reading items", 10, 240)
    registry.note_progress(run.run_id, 7, "a stale build", 1, 1)
    now = registry.run(run.run_id)
    assert (now.step, now.current, now.total) == ("reading items", 10.0, 240.0)
    assert reader.events(run.run_id) == []


def test_nothing_is_recorded_for_a_run_that_does_not_work(registry, run_in):
    run = run_in(State.ERROR)
    with pytest.raises(Conflict) as refused:
        registry.store_predictions(run.run_id, 1, [])
    assert refused.value.code == "already_ended"


def test_a_number_that_no_float_holds_stops_nothing(registry, run_in, reader):
    run = run_in(State.RUNNING)
    huge = 10**400
    event = {"event": "progress", "t": huge, "current": huge, "total": 1, "eta_s": -huge}
    assert not registry.record_events(
        run.run_id, 1, 0, [event, {"event": "metric", "name": "n", "value": huge}]
    )
    stored = registry.run(run.run_id)
    assert (stored.current, stored.total, stored.eta_s) == (0.0, 1.0, 0.0)
    line = {"instance_id": "a", "schema_name": "s", "payload": {"value": huge}, "confidence": huge}
    registry.store_predictions(run.run_id, 1, [line])
    (prediction,) = reader.predictions(run.run_id)
    assert prediction.confidence is None


def test_the_newest_events_of_some_names_come_in_their_order(registry, run_in, reader):
    run = run_in(State.RUNNING)
    noise = [{"event": "progress", "current": number, "total": 9} for number in range(9)]
    registry.record_events(run.run_id, 1, 0, [*said("a", "b", "c"), *noise, *said("d"), *noise])
    newest = reader.newest_events(run.run_id, ("log", "error"), 3)
    assert [(event["id"], event["message"]) for event in newest] == [(2, "b"), (3, "c"), (13, "d")]
    assert reader.newest_events("nothing", ("log",), 3) == []


FITTING = {"event": "status", "phase": "fitting", "step": "epoch 3 of 9"}


def test_a_step_that_lies_over_the_workers_own_is_taken_off_and_its_progress_stays(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [FITTING, {"event": "progress", "current": 3, "total": 9}])
    for word in ("no word for 30 s", "no word for 40 s"):
        registry.put_step_over(run.run_id, 1, word)
        late = registry.run(run.run_id)
        assert (late.step, late.phase, late.current, late.total) == (word, "fitting", 3.0, 9.0)
    registry.put_step_over(run.run_id, 1, None)
    again = registry.run(run.run_id)
    assert (again.step, again.current, again.total) == ("epoch 3 of 9", 3.0, 9.0)
    assert [event["step"] for event in reader.newest_events(run.run_id, ["status"], 1)] == ["epoch 3 of 9"]


def test_the_log_has_one_line_when_an_agent_is_late_and_one_when_it_is_heard(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [FITTING])
    for word in ("no word for 30 s", "no word for 40 s", "no word for 50 s"):
        registry.put_step_over(run.run_id, 1, word)
    for _ in range(2):
        registry.put_step_over(run.run_id, 1, None, "It is heard again.")
    lines = [line.partition(" ")[2] for line in log_lines(reader.events(run.run_id))]
    assert lines == ["epoch 3 of 9", "no word for 30 s", "It is heard again."]


def test_a_step_that_nobody_has_covered_is_left_alone(registry, run_in, reader):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [FITTING])
    registry.put_step_over(run.run_id, 1, "no word for 30 s")
    registry.record_events(run.run_id, 1, 1, [{"event": "status", "step": "predicting"}])
    registry.put_step_over(run.run_id, 1, None)
    assert registry.run(run.run_id).step == "predicting"
    assert len(reader.events(run.run_id)) == 3


def test_a_step_that_is_no_event_comes_back_too_and_one_of_an_earlier_attempt_does_not(registry, run_in):
    run = run_in(State.RUNNING)
    registry.update(run.run_id, 1, step="waiting for the agent to fetch the job")
    registry.put_step_over(run.run_id, 1, "no word for 30 s")
    registry.put_step_over(run.run_id, 1, None)
    assert registry.run(run.run_id).step == "waiting for the agent to fetch the job"
    registry.put_step_over(run.run_id, 1, "no word for 30 s")
    registry.transition(run.run_id, 1, State.OFFERED)
    registry.begin(run.run_id, None, 1)
    registry.put_step_over(run.run_id, 2, None)
    assert registry.run(run.run_id).step == ""


def test_nothing_is_laid_over_the_step_of_a_run_that_has_ended(registry, run_in, reader):
    run = run_in(State.ERROR)
    registry.put_step_over(run.run_id, run.attempt, "no word for 30 s")
    assert registry.run(run.run_id).step == run.step
    assert reader.newest_events(run.run_id, ["status"], 1) == []
