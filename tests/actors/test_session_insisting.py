"""A command is repeated while the controller restarts, and its start is made once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from potato_ray.actors.session import RESTART_PATIENCE_S, Session
from potato_ray.config import load
from potato_ray.errors import Conflict, NotSent, StartRefused

CONFIG = Path(__file__).parent.parent / "projects" / "review-sentiment" / "config.yaml"
RESTARTING = Conflict("It did not answer.", code="controller_restarting")


class Restarting(Session):
    """A session whose controller gives these answers to commands, and is always ready again."""

    def __init__(self, *answers: Any) -> None:
        super().__init__(load(CONFIG), "a test")
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
    assert session.insist("start", "request") == {"started": True}
    assert session.asked == [("start", "request")] * 3


def test_a_controller_that_never_answers_is_given_up() -> None:
    session = Restarting(RESTARTING)
    with pytest.raises(Conflict) as given_up:
        session.insist("start", "request", clock=lambda: session.now)
    assert given_up.value.code == "controller_restarting"
    assert session.now == RESTART_PATIENCE_S


def test_a_refusal_is_not_repeated() -> None:
    session = Restarting(StartRefused("No such scheme."))
    with pytest.raises(StartRefused):
        session.insist("start", "request")
    assert len(session.asked) == 1


def test_without_a_controller_a_command_may_be_repeated_later() -> None:
    session = Session(load(CONFIG), "a test")
    with pytest.raises(NotSent, match="not sent") as unanswered:
        session.call("start", "request")
    assert unanswered.value.code == "controller_restarting"
