"""How a run asks for the login that it shares: through the adapter's end, and no longer than it may take."""

from __future__ import annotations

from typing import Any

import pytest
import ray
import ray.exceptions

from potato_ray.actors import adapter_login
from potato_ray.actors.adapter_login import AdapterLogin
from potato_ray.errors import Cancelled
from potato_ray.ssh import Connection, Destination, SshFailed, SshTimeout

BOX = Destination("login.example", connect_timeout_s=0.05)
AWAY = ray.exceptions.RayActorError()
REFUSED = SshFailed("ssh to login.example failed: Permission denied")
GONE = SshFailed("ssh to login.example failed: The login that its runs share has just ended")
SILENT = "silent"


class Adapters:
    """Adapters that answer each call in turn: a path, a failure, or nothing. `joins` come of the paths."""

    def __init__(self, *answers: Any, joins: tuple[Any, ...] = ("joined",)) -> None:
        self.answers = list(answers)
        self.joins = list(joins)
        self.started = self.asked = 0
        self.joined: list[str] = []
        self.full: list[str] = []
        self.beside: Any = None
        self.login = self

    def start(self, destination: Destination) -> Adapters:
        assert destination is BOX
        self.started += 1
        return self

    def remote(self, full: list[str]) -> Any:
        self.asked += 1
        self.full = full
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def wait(self, references: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return ([], references) if references == [SILENT] else (references, [])

    def get(self, answer: Any, timeout: float) -> Any:
        if isinstance(answer, SshFailed):
            raise ray.exceptions.RayTaskError("login", "", answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def join(self, destination: Destination, control_path: str, why: object, beside: Any = None) -> Any:
        self.beside = beside or self.beside
        self.joined.append(control_path)
        answer = self.joins.pop(0) if len(self.joins) > 1 else self.joins[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def ask(adapters: Adapters, monkeypatch: pytest.MonkeyPatch, *, stopped: bool = False) -> Any:
    monkeypatch.setattr(ray, "get", adapters.get)
    monkeypatch.setattr(ray, "wait", adapters.wait)
    monkeypatch.setattr(Connection, "join", adapters.join)
    monkeypatch.setattr(adapter_login, "JoinedLogin", adapters.join)
    monkeypatch.setattr(adapter_login, "START_S", 0.0)
    monkeypatch.setattr(adapter_login, "LOOK_EVERY_S", 0.0)
    return AdapterLogin(adapters.start)(BOX, lambda: stopped)


def test_what_the_adapter_names_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = Adapters("/tmp/1/c")
    assert ask(adapters, monkeypatch) == "joined"
    assert adapters.joined == ["/tmp/1/c"]


def test_where_it_is_full_the_adapter_is_asked_for_one_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = Adapters("/tmp/1/c", AWAY, "/tmp/2/c", joins=("joined", "another"))
    assert ask(adapters, monkeypatch) == "joined"
    assert adapters.full == []
    assert adapters.beside(["/tmp/1/c"], lambda: False) == "another"
    assert adapters.joined == ["/tmp/1/c", "/tmp/2/c"]
    assert adapters.full == ["/tmp/1/c"]
    assert adapters.started == 2


def test_another_adapter_is_started_for_one_that_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = Adapters(AWAY, "/tmp/2/c")
    assert ask(adapters, monkeypatch) == "joined"
    assert adapters.started == 2


def test_a_login_that_ends_before_it_is_joined_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = Adapters("/tmp/1/c", "/tmp/2/c", joins=(GONE, "joined"))
    assert ask(adapters, monkeypatch) == "joined"
    assert adapters.joined == ["/tmp/1/c", "/tmp/2/c"]
    assert adapters.started == 1


def test_a_refusal_of_the_host_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = Adapters(REFUSED)
    with pytest.raises(SshFailed, match="Permission denied"):
        ask(adapters, monkeypatch)
    assert adapters.asked == 1


@pytest.mark.parametrize(
    ("adapters", "words"),
    [
        (Adapters(AWAY), "has ended, again and again"),
        (Adapters("/tmp/1/c", joins=(GONE,)), "has just ended"),
    ],
)
def test_what_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch, adapters: Adapters, words: str) -> None:
    with pytest.raises(SshFailed, match=words):
        ask(adapters, monkeypatch)
    assert adapters.asked > 1


def test_an_adapter_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SshTimeout, match="did not answer"):
        ask(Adapters(SILENT), monkeypatch)


@pytest.mark.parametrize("answer", [SILENT, AWAY])
def test_a_stop_ends_the_wait(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    with pytest.raises(Cancelled):
        ask(Adapters(answer), monkeypatch, stopped=True)
