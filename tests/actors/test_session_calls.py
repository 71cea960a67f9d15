"""Calls of a controller that does not answer: each of Ray's failures becomes an error of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import ray
import ray.exceptions

from potato_ray.actors import session
from potato_ray.config import load
from potato_ray.errors import Conflict, NotFound
from potato_ray.lock import private_folder, write_private

CONFIG = Path(__file__).parent.parent / "projects" / "review-sentiment" / "config.yaml"
FAILURES = [
    ray.exceptions.ActorUnavailableError("it restarts", None),
    ray.exceptions.ActorDiedError(),
    ray.exceptions.RayActorError(),
    ray.exceptions.GetTimeoutError("too late"),
    ray.exceptions.RaySystemError("the raylet is gone"),
    ray.exceptions.OwnerDiedError("00" * 28, "", ""),
]


class Controller:
    """Stands for the actor: every method may be called."""

    def __getattr__(self, name: str) -> Any:
        return self

    def remote(self, *args: Any) -> object:
        return object()


def answering(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
    """Let `ray.get` answer so, the last answer again and again."""
    left = list(answers)

    def get(reference: object, timeout: float) -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(session, "REPEAT_AFTER_S", 0.0)


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_command_without_an_answer_may_or_may_not_have_been_taken(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    answering(monkeypatch, failure)
    with pytest.raises(Conflict, match="may or may not have taken") as unanswered:
        session.call(Controller(), "start", timeout_s=5.0)
    assert unanswered.value.code == "controller_restarting"
    assert type(failure).__name__ in unanswered.value.evidence


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_question_is_repeated_until_it_is_answered(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    answering(monkeypatch, failure, failure, "ready")
    assert session.call(Controller(), "ready", timeout_s=5.0) == "ready"


def test_a_question_is_given_up_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ray.exceptions.ActorDiedError())
    with pytest.raises(Conflict, match="was restarting or busy"):
        session.call(Controller(), "ready", timeout_s=0.0)


def test_errors_of_ours_arrive_as_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = NotFound("No such run: r")
    answering(monkeypatch, ray.exceptions.RayTaskError("cancel", "traceback", refusal))
    with pytest.raises(NotFound, match="No such run: r"):
        session.call(Controller(), "cancel", timeout_s=5.0)


@pytest.mark.parametrize("failure", [ValueError("no actor"), ConnectionError("gone"), RuntimeError("init")])
def test_a_holder_that_cannot_be_reached_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: Exception
) -> None:
    config = load(CONFIG)
    monkeypatch.setattr(type(config), "state_dir", property(lambda self: tmp_path))
    write_private(private_folder(tmp_path) / "server.json", {"ray_address": "127.0.0.1:1"})

    def fail(*args: object) -> None:
        raise failure

    monkeypatch.setattr(session, "connect", fail)
    with pytest.raises(Conflict, match="cannot be reached") as unreachable:
        session.reach(config)
    assert unreachable.value.code == "project_in_use"
    assert str(failure) in unreachable.value.evidence


def test_an_exit_that_ray_demands_is_a_command_without_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, SystemExit(0))
    with pytest.raises(Conflict, match="Ray was ending") as unanswered:
        session.call(Controller(), "start", timeout_s=5.0)
    assert unanswered.value.code == "controller_restarting"
