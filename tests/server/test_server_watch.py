"""Ray and the controller are brought up, watched, brought up again, and given up at last."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from potato_ray.errors import Conflict, ProjectUnreadable
from potato_ray.server.context import Phase
from potato_ray.server.life import MAX_SILENCES, PAUSES_S, STEADY_S, Life
from potato_ray.server.link import LiveLink

UNANSWERED = Conflict("It did not answer.", code="controller_restarting")


class Held:
    """Comes up as `ups` say (None, or what is raised), and lives as `lives` say; the last one lasts."""

    def __init__(self, ups: list[Exception | None], lives: list[bool]) -> None:
        self.ups, self.lives = ups, lives
        self.done: list[str] = []

    def bring_up(self, wanted: Callable[[], bool]) -> None:
        self.done.append("up")
        failure = self.ups.pop(0) if len(self.ups) > 1 else self.ups[0]
        if failure is not None:
            raise failure

    def take_down(self, *, answers: bool = True) -> None:
        self.done.append("down, asked" if answers else "down")

    def is_alive(self, timeout_s: float) -> bool:
        return self.lives.pop(0) if len(self.lives) > 1 else self.lives[0]


class Lived:
    """A life in a time of its own; it is stopped after so many waits."""

    def __init__(self, *ups: Exception | None, lives: list[bool], stop_after: int = 20) -> None:
        self.held = Held(list(ups), lives)
        self.link = LiveLink(None)  # type: ignore[arg-type]
        self.said: list[str] = []
        self.failed = 0
        self.now = 0.0
        self.waited: list[float] = []
        self._waits_left = stop_after
        self.life = Life(
            self.held,
            self.link,
            tell=self.said.append,
            failed=self._fail,
            clock=lambda: self.now,
            wait=self._wait,
        )
        self.life.run()

    def _fail(self) -> None:
        self.failed += 1

    def _wait(self, stopping: threading.Event, seconds: float) -> bool:
        self.now += seconds
        self.waited.append(seconds)
        self._waits_left -= 1
        if self._waits_left <= 0:
            self.link.close()
            stopping.set()
        return stopping.is_set()


def test_a_server_that_is_stopped_takes_everything_down_politely() -> None:
    lived = Lived(None, lives=[True])
    assert lived.held.done == ["up", "down, asked"]
    assert lived.link.phase is Phase.STOPPING
    assert lived.failed == 0


def test_one_silence_is_not_enough() -> None:
    lived = Lived(None, lives=[False, True, False, True])
    assert lived.held.done == ["up", "down, asked"]


def test_a_lost_ray_is_taken_down_and_brought_up_again() -> None:
    lived = Lived(None, lives=[False] * MAX_SILENCES + [True])
    assert lived.held.done == ["up", "down", "up", "down, asked"]
    assert "does not answer any more" in lived.said[1]
    assert lived.said[2] == "ready: runs can start"


def test_what_the_first_start_meets_in_ray_is_tried_again() -> None:
    lived = Lived(TimeoutError(), UNANSWERED, None, lives=[True])
    assert lived.held.done == ["up", "down", "up", "down", "up", "down, asked"]
    assert lived.failed == 0


def test_a_registry_that_cannot_be_opened_ends_the_server_at_once() -> None:
    trouble = ProjectUnreadable("The registry is damaged.", code="registry_unreadable")
    lived = Lived(trouble, lives=[True])
    assert lived.held.done == ["up", "down"]
    assert lived.link.trouble is trouble
    assert (lived.link.phase, lived.failed) == (Phase.FAILED, 1)


def test_tries_are_bounded_and_wait_longer_each_time() -> None:
    lived = Lived(RuntimeError("no memory\nand more"), lives=[True])
    assert lived.held.done.count("up") == 1 + len(PAUSES_S)
    assert lived.waited == list(PAUSES_S)
    assert lived.link.trouble is not None
    assert lived.link.trouble.code == "ray_failed"
    assert lived.link.trouble.evidence == "RuntimeError: no memory"
    assert lived.failed == 1


def test_a_ray_that_is_lost_again_and_again_is_given_up() -> None:
    lived = Lived(None, lives=[False], stop_after=100)
    assert lived.held.done.count("up") == 1 + len(PAUSES_S)
    assert lived.link.trouble is not None
    assert "again and again" in lived.link.trouble.message


def test_after_a_steady_time_all_tries_are_there_again() -> None:
    steady = [True] * int(STEADY_S)
    losses = [False] * MAX_SILENCES
    lived = Lived(None, lives=(losses * 4 + steady) * 3 + [True], stop_after=5000)
    assert lived.failed == 0
    assert lived.held.done.count("up") == 1 + 4 * 3


def test_a_stop_while_it_pauses_ends_without_another_try() -> None:
    lived = Lived(RuntimeError("no memory"), lives=[True], stop_after=2)
    assert lived.held.done == ["up", "down", "up", "down", "down, asked"]
    assert lived.failed == 0


def test_a_stop_while_it_comes_up_is_no_failure() -> None:
    class Stopped(Held):
        def bring_up(self, wanted: Callable[[], bool]) -> None:
            super().bring_up(wanted)
            life.stop(0.0)
            assert not wanted()
            raise RuntimeError("Ray was ended in the middle of its start")

    held, link = Stopped([None], [True]), LiveLink(None)  # type: ignore[arg-type]
    failed: list[Any] = []
    life = Life(held, link, tell=lambda line: None, failed=lambda: failed.append(1))
    life.start()
    assert life.stop(5.0)
    assert (link.phase, failed) == (Phase.STOPPING, [])
    assert held.done[-1] == "down, asked"
