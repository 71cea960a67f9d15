"""The queue: who waits, who is refused, who begins, and what a cancel does."""

from __future__ import annotations

import pytest
from recorded_items import items_of

from potato_ray.errors import Conflict, NotFound, StartRefused
from potato_ray.registry import NewRun, Reservation, State


def test_a_run_id_is_a_utc_stamp_and_six_hex_digits(queue_run):
    stamp, digits = queue_run().run_id.split("-")
    assert stamp == "20261129T122458"
    assert len(digits) == 6
    int(digits, 16)


def test_the_first_run_need_not_wait_and_the_next_ones_get_their_place(registry, queue_run):
    first = queue_run()
    assert first.position == 0
    registry.begin(first.run_id, None, 1)
    assert [queue_run().position for _ in range(3)] == [1, 2, 3]


def test_the_queue_is_first_in_first_out_and_moves_up(registry, queue_run):
    runs = [queue_run() for _ in range(3)]
    registry.begin(runs[0].run_id, None, 1)
    assert [run.run_id for run in registry.queued()] == [run.run_id for run in runs[1:]]
    assert [run.position for run in registry.queued()] == [1, 2]


def test_a_repeated_idempotency_key_returns_the_same_run(registry, queue_run):
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",), idempotency_key="once")
    first = queue_run(new)
    assert queue_run(new, queue_max=0, allow_queue=False).run_id == first.run_id
    assert len(registry.unfinished()) == 1


def test_a_busy_registry_refuses_a_run_that_may_not_wait(registry, queue_run):
    registry.begin(queue_run().run_id, None, 1)
    with pytest.raises(StartRefused) as refused:
        queue_run(allow_queue=False)
    assert refused.value.code == "busy"
    assert len(registry.unfinished()) == 1


def test_nobody_overtakes_a_waiting_run_because_a_slot_is_free(queue_run):
    queue_run(max_concurrent=2)
    with pytest.raises(StartRefused):
        queue_run(allow_queue=False, max_concurrent=2)


def test_a_full_queue_refuses_the_next_run(registry, queue_run):
    registry.begin(queue_run().run_id, None, 1)
    queue_run(queue_max=1)
    with pytest.raises(StartRefused) as refused:
        queue_run(queue_max=1)
    assert refused.value.code == "queue_full"


def test_an_idle_registry_takes_a_run_even_with_no_room_to_wait(queue_run):
    assert queue_run(queue_max=0, allow_queue=False).position == 0


def test_runs_on_offer_do_not_count_as_waiting(registry, queue_run):
    offered = queue_run()
    registry.transition(offered.run_id, 0, State.OFFERED)
    assert queue_run(queue_max=0, allow_queue=False).position == 0
    assert registry.run(offered.run_id).status == "queued"
    assert registry.run(offered.run_id).position == 0


def test_begin_takes_slot_gpus_and_attempt_together(registry, queue_run, clock):
    run = queue_run()
    clock.now += 5
    begun = registry.begin(run.run_id, Reservation("local", ("GPU-a",), "cuda:0"), 1)
    assert (begun.state, begun.attempt, begun.begun_at) == (State.BUILDING, 1, clock.now)
    assert (begun.device, begun.gpu_uuids) == ("cuda:0", ("GPU-a",))
    assert [(held.run_id, held.gpu_uuids) for held in registry.reservations()] == [(run.run_id, ("GPU-a",))]


def test_begin_gives_up_when_the_slots_are_full(registry, queue_run):
    first, second = queue_run(), queue_run()
    registry.begin(first.run_id, None, 1)
    assert registry.begin(second.run_id, None, 1) is None
    assert registry.begin(second.run_id, None, 2) is not None


def test_begin_gives_up_when_any_of_the_gpus_is_taken_and_reserves_none(registry, queue_run):
    first, second = queue_run(), queue_run()
    registry.begin(first.run_id, Reservation("local", ("GPU-a",)), 2)
    assert registry.begin(second.run_id, Reservation("local", ("GPU-b", "GPU-a")), 2) is None
    assert registry.run(second.run_id).state is State.QUEUED
    assert len(registry.reservations()) == 1


def test_one_card_reached_by_two_backends_is_still_one_card(registry, queue_run):
    first, second = queue_run(), queue_run()
    registry.begin(first.run_id, Reservation("local", ("GPU-a", "0")), 2)
    assert registry.begin(second.run_id, Reservation("ssh", ("GPU-a",)), 2) is None
    assert registry.taken("ssh") == {"GPU-a"}
    assert registry.taken("local") == {"GPU-a", "0"}
    assert registry.begin(second.run_id, Reservation("ssh", ("0",)), 2) is not None


def test_a_gpu_stays_reserved_after_the_end_until_it_is_released(registry, queue_run):
    first, second = queue_run(), queue_run()
    registry.begin(first.run_id, Reservation("local", ("GPU-a",)), 1)
    registry.transition(first.run_id, 1, State.ERROR, error_code="wall_clock")
    assert registry.begin(second.run_id, Reservation("local", ("GPU-a",)), 1) is None
    assert registry.release(first.run_id, 1) == 1
    assert registry.begin(second.run_id, Reservation("local", ("GPU-a",)), 1) is not None


def test_releasing_what_nobody_holds_is_no_error(registry, queue_run):
    assert registry.release(queue_run().run_id, 1) == 0
    assert registry.release("pruned") == 0


def test_a_begun_run_can_reserve_its_gpus_later(registry, run_in):
    first, second = run_in(State.BUILDING), run_in(State.BUILDING)
    assert registry.reserve(first.run_id, 1, Reservation("ssh", ("GPU-a",)))
    assert registry.reserve(first.run_id, 1, Reservation("ssh", ("GPU-a",)))
    assert not registry.reserve(second.run_id, 1, Reservation("ssh", ("GPU-a",)))
    assert registry.release(first.run_id) == 1


def test_cancelling_a_waiting_run_ends_it_at_once(registry, queue_run, clock):
    run = registry.request_cancel(queue_run().run_id)
    assert (run.state, run.finished_at) == (State.CANCELLED, clock.now)
    assert registry.begin(run.run_id, None, 1) is None


def test_cancelling_a_run_on_offer_ends_it_at_once(registry, run_in):
    assert registry.request_cancel(run_in(State.OFFERED).run_id).state is State.CANCELLED


def test_cancelling_an_active_run_marks_it_once(registry, run_in, clock):
    run = run_in(State.RUNNING)
    asked = registry.request_cancel(run.run_id)
    assert (asked.state, asked.status) == (State.RUNNING, "cancelling")
    first = clock.now
    clock.now += 9
    assert registry.request_cancel(run.run_id).cancel_requested_at == first


def test_cancelling_an_ended_run_is_a_conflict(registry, run_in):
    run = run_in(State.SUCCESS)
    with pytest.raises(Conflict) as refused:
        registry.request_cancel(run.run_id)
    assert refused.value.code == "already_ended"


def test_a_cancelled_build_does_not_go_back_to_the_queue(registry, run_in):
    run = run_in(State.BUILDING)
    registry.request_cancel(run.run_id)
    assert registry.transition(run.run_id, 1, State.QUEUED).state is State.CANCELLED


def test_a_build_that_goes_back_keeps_its_place_and_forgets_its_first_attempt(registry, queue_run):
    first, second = queue_run(), queue_run()
    registry.begin(first.run_id, None, 1)
    registry.record_items(first.run_id, 1, "train", ["a", "b"])
    registry.transition(first.run_id, 1, State.QUEUED)
    assert [run.run_id for run in registry.queued()] == [first.run_id, second.run_id]
    again = registry.begin(first.run_id, None, 1)
    assert (again.attempt, again.n_train) == (2, None)
    registry.forget_attempt(first.run_id)
    assert items_of(registry.path, first.run_id, "train") == []


def test_an_unknown_run_is_not_found(registry):
    for ask in (registry.run, registry.request_cancel, registry.note_withdrawal):
        with pytest.raises(NotFound):
            ask("nope")


def test_a_run_that_is_being_finished_cannot_be_cancelled_any_more(registry, queue_run):
    run = registry.begin(queue_run().run_id, None, 1)
    for state in (State.RUNNING, State.FINISHING):
        run = registry.transition(run.run_id, run.attempt, state)
    with pytest.raises(Conflict, match="being scored and written back"):
        registry.request_cancel(run.run_id)
    assert registry.run(run.run_id).cancel_requested_at is None


def test_a_run_that_is_about_to_leave_the_queue_takes_nobodys_place_in_it(queue_run) -> None:
    assert [queue_run(queue_max=2).position for _ in range(3)] == [0, 1, 2]
    with pytest.raises(StartRefused) as refused:
        queue_run(queue_max=2)
    assert refused.value.code == "queue_full"
    assert refused.value.message == "2 runs are waiting already."
