"""When an end that a server does not take is given up."""

from __future__ import annotations

import pytest

from potato_ray.agent.errors import Refused, ServerUnreachable, WrongToken
from potato_ray.agent.tries import TriesInVain


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def tries(now: list[float]) -> TriesInVain:
    return TriesInVain(3, lambda: now[0])


def test_refusals_are_enough_after_their_number_and_their_time(tries: TriesInVain, now: list[float]) -> None:
    for second in (0.0, 1.0, 2.0):
        now[0] = second
        assert not tries.are_enough(0.0)
        tries.count(Refused(400, "no"), was_heard=False)
    assert tries.are_enough(2.0)
    assert not tries.are_enough(2.1)
    tries.progress()
    assert not tries.are_enough(0.0)


def test_a_server_that_is_away_is_not_counted(tries: TriesInVain) -> None:
    for _ in range(9):
        tries.count(ServerUnreachable("away"), was_heard=False)
    assert not tries.are_enough(0.0)


def test_what_was_refused_for_the_token_does_not_count_against_the_job(
    tries: TriesInVain, now: list[float]
) -> None:
    for _ in range(9):
        tries.count(WrongToken(401, "who?"), was_heard=False)
    assert tries.barred
    now[0] = 50_000.0
    tries.count(Refused(400, "no"), was_heard=False)
    assert not tries.barred
    assert not tries.are_enough(300.0)
