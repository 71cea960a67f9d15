"""How a task's call reaches the controller: through its restarts, and however long it takes to answer."""

from __future__ import annotations

from typing import Any

import pytest
import ray
import ray.exceptions

from potato_ray.actors import tasks
from potato_ray.actors.tasks import Messenger

BUSY = ray.exceptions.GetTimeoutError("not yet")
AWAY = ray.exceptions.RayActorError()


class Controller:
    """Counts the calls that are sent; `get` gives these answers in turn, and raises what is an error."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent = 0
        self.store = self

    def remote(self, *args: Any) -> int:
        self.sent += 1
        return self.sent

    def get(self, reference: int, timeout: float) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ask(controller: Controller, monkeypatch: pytest.MonkeyPatch, patience_s: float = 5.0) -> Any:
    monkeypatch.setattr(ray, "get", controller.get)
    monkeypatch.setattr(tasks, "AWAY_POLL_S", 0.0)
    return Messenger(controller, patience_s).call("store", 1)


def test_a_busy_controller_is_waited_for_and_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(BUSY, BUSY, BUSY, "stored")
    assert ask(controller, monkeypatch, patience_s=0.0) == "stored"
    assert controller.sent == 1


def test_a_restarted_controller_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    controller = Controller(BUSY, AWAY, AWAY, "stored")
    assert ask(controller, monkeypatch) == "stored"
    assert controller.sent == 3


def test_a_controller_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ray.exceptions.RayActorError):
        ask(Controller(AWAY), monkeypatch, patience_s=0.05)
