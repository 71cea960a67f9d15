"""One connection for many short questions: kept for a while, made again when it has died."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from potato_ray.backends.host_line import HostLine
from potato_ray.ssh import Destination, SshFailed, SshTimeout

HOST = Destination("gpu1")


class Login:
    """Stands for connections; `made` are those that were opened."""

    def __init__(self) -> None:
        self.made: list[Login.Line] = []
        self.refuses = False

    class Line:
        is_alive = True
        closed = threading.Event()

        def __init__(self) -> None:
            self.closed = threading.Event()

        def close(self) -> None:
            self.is_alive = False
            self.closed.set()

    def __call__(self, destination: Destination) -> Any:
        if self.refuses:
            raise SshFailed("ssh to gpu1 failed: Permission denied")
        self.made.append(Login.Line())
        return self.made[-1]


def test_many_questions_take_one_login() -> None:
    login = Login()
    line = HostLine(HOST, login=login)
    assert [line.ask(lambda _: 1) for _ in range(3)] == [1, 1, 1]
    assert len(login.made) == 1
    line.close()
    assert login.made[0].closed.is_set()


def test_it_logs_out_after_a_while() -> None:
    login = Login()
    line = HostLine(HOST, idle_s=0.02, login=login)
    line.ask(lambda _: None)
    assert login.made[0].closed.wait(10.0)
    line.ask(lambda _: None)
    assert len(login.made) == 2
    line.close()


def test_a_question_over_a_connection_that_died_is_asked_again() -> None:
    login = Login()
    line = HostLine(HOST, login=login)
    line.ask(lambda _: None)

    def question(connection: Any) -> str:
        if connection is login.made[0]:
            connection.is_alive = False
            raise SshFailed("the connection was lost")
        return "answered"

    assert line.ask(question) == "answered"
    assert login.made[0].closed.is_set()
    line.close()


def test_what_a_living_host_refuses_is_not_asked_twice() -> None:
    login, asked = Login(), []
    line = HostLine(HOST, login=login)

    def question(_: Any) -> None:
        asked.append(1)
        raise SshFailed("the command ended before its time")

    for _ in range(2):
        with pytest.raises(SshFailed):
            line.ask(question)
    assert (len(asked), len(login.made)) == (2, 1)
    line.close()


def test_a_login_that_is_refused_is_told_and_tried_anew_the_next_time() -> None:
    login = Login()
    line = HostLine(HOST, login=login)
    login.refuses = True
    with pytest.raises(SshFailed, match="Permission denied"):
        line.ask(lambda _: None)
    login.refuses = False
    assert line.ask(lambda _: "in") == "in"
    line.close()


def test_a_kept_connection_that_is_silent_is_given_up_for_another_one_once() -> None:
    login, asked = Login(), []
    line = HostLine(HOST, login=login)
    line.ask(lambda _: None)

    def question(connection: Any) -> None:
        asked.append(connection)
        raise SshTimeout("nothing within 60 s")

    with pytest.raises(SshTimeout):
        line.ask(question)
    assert asked == login.made
    assert len(asked) == 2
    line.close()
