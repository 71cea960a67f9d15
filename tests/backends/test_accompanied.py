"""Work in a thread beside the sink: what it says is told, and a cancel reaches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from potato_ray.backends.accompanied import Accompanied, Stopped, Talk
from potato_ray.backends.base import Directive
from potato_ray.errors import RunFailed


class Listener:
    """A sink that keeps the notes, and answers with `directive`."""

    def __init__(self, directive: Directive | None = None) -> None:
        self.directive = directive or Directive()
        self.notes: list[Mapping[str, Any]] = []
        self.seqs: set[int] = set()

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        self.notes += notes
        self.seqs.add(first_seq)
        return self.directive


def test_the_answer_comes_after_everything_that_was_said() -> None:
    def work(talk: Talk) -> int:
        talk.log("one")
        talk.step("two")
        talk.log("three", "warning")
        return 7

    listener = Listener()
    assert Accompanied(work, listener, 5).run() == 7
    assert [note.get("message") or note.get("step") for note in listener.notes] == ["one", "two", "three"]
    assert listener.seqs == {5}


def test_of_steps_that_come_at_once_the_newest_is_told() -> None:
    talk = Talk()
    for number in range(1000):
        talk.step(f"{number} of 1000")
    assert talk.taken() == [{"kind": "step", "step": "999 of 1000"}]
    assert talk.taken() == []


@pytest.mark.parametrize("directive", [Directive(cancel=True), Directive(stale=True)])
def test_a_cancel_and_a_new_follower_stop_the_work(directive: Directive) -> None:
    ended = threading.Event()

    def work(talk: Talk) -> None:
        assert talk.wait(20.0)
        ended.set()

    with pytest.raises(Stopped) as stopped:
        Accompanied(work, Listener(directive), 0).run()
    assert stopped.value.directive is directive
    assert ended.is_set()


def test_what_the_work_raises_is_raised() -> None:
    def work(talk: Talk) -> None:
        raise RunFailed("It did not work.", code="ssh_failed")

    with pytest.raises(RunFailed, match="It did not work") as failed:
        Accompanied(work, Listener(), 0).run()
    assert failed.value.code == "ssh_failed"


def test_a_sink_that_fails_stops_the_work_too() -> None:
    ended = threading.Event()

    def work(talk: Talk) -> None:
        talk.wait(20.0)
        ended.set()

    def sink(*_: Any) -> Directive:
        raise ConnectionError("the controller is gone")

    with pytest.raises(ConnectionError):
        Accompanied(work, sink, 0).run()
    assert ended.is_set()


def test_a_talk_is_safe_between_threads() -> None:
    talk, said = Talk(), 2000

    def speak(say: Callable[[str], None]) -> None:
        for number in range(said):
            say(str(number))

    threads = [threading.Thread(target=speak, args=(say,)) for say in (talk.log, talk.step)]
    for thread in threads:
        thread.start()
    taken: list[dict[str, Any]] = []
    while any(thread.is_alive() for thread in threads):
        taken += talk.taken()
    taken += talk.taken()
    assert [int(note["message"]) for note in taken if note["kind"] == "log"] == list(range(said))
    assert [note["step"] for note in taken if note["kind"] == "step"][-1] == str(said - 1)
