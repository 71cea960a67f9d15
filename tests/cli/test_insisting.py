"""A command is repeated while the controller restarts, and its start is made once."""

from __future__ import annotations

from typing import Any

import pytest

from potato_ray.cli.running import RESTART_PATIENCE_S, insist
from potato_ray.errors import Conflict, StartRefused

RESTARTING = Conflict("It did not answer.", code="controller_restarting")


class Restarting:
    """A session whose controller gives these answers to commands, and is always ready again."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []
        self.now = 0.0

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any:
        if method == "ready":
            self.now += 5.0
            return {}
        self.asked.append((method, *args))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_the_same_command_is_repeated_until_it_is_answered() -> None:
    session = Restarting(RESTARTING, RESTARTING, {"started": True})
    assert insist(session, "start", "request") == {"started": True}  # type: ignore[arg-type]
    assert session.asked == [("start", "request")] * 3


def test_a_controller_that_never_answers_is_given_up() -> None:
    session = Restarting(RESTARTING)
    with pytest.raises(Conflict) as given_up:
        insist(session, "start", "request", clock=lambda: session.now)  # type: ignore[arg-type]
    assert given_up.value.code == "controller_restarting"
    assert session.now == RESTART_PATIENCE_S


def test_a_refusal_is_not_repeated() -> None:
    session = Restarting(StartRefused("No such scheme."))
    with pytest.raises(StartRefused):
        insist(session, "start", "request")  # type: ignore[arg-type]
    assert len(session.asked) == 1
