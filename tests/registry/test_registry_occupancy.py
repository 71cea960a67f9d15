"""How long every slot was taken, by the times of the runs."""

from __future__ import annotations

import pytest

from potato_ray.registry import State
from potato_ray.registry.occupancy import full_s

HOUR = (1000.0, 4600.0)


@pytest.mark.parametrize(
    ("spans", "slots", "full"),
    [
        ([], 1, 0.0),
        ([(500.0, 900.0), (5000.0, 6000.0)], 1, 0.0),
        ([(500.0, 1600.0), (4000.0, 9000.0)], 1, 1200.0),
        ([(1000.0, 2000.0), (2000.0, 3000.0)], 1, 2000.0),
        ([(1000.0, 2000.0), (1500.0, 3000.0)], 2, 500.0),
        ([(0.0, 9000.0)], 2, 0.0),
    ],
)
def test_time_counts_while_as_many_runs_are_under_way_as_may_be(spans, slots: int, full: float) -> None:
    assert full_s(spans, slots, *HOUR) == full


def test_runs_that_have_begun_hold_a_slot_until_their_end(registry, reader, run_in, clock) -> None:
    began = clock.now
    run = run_in(State.RUNNING)
    assert reader.slots_full_s(1, began - 50.0, clock.now + 100.0) == 100.0
    clock.now += 30.0
    registry.transition(run.run_id, run.attempt, State.ERROR)
    assert reader.slots_full_s(1, began - 50.0, clock.now + 100.0) == 30.0
