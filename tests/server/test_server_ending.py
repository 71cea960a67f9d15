"""What each signal does to a server, with and without a run in progress."""

from __future__ import annotations

import itertools
import signal
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import pytest

from potato_ray.errors import ProjectUnreadable
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server import ending
from potato_ray.server.ending import BROKEN, FAILED, INTERRUPTED, STOPPED, Ending, Inbox, signals_into

INT, TERM, HUP = int(signal.SIGINT), int(signal.SIGTERM), int(signal.SIGHUP)
RUN = Run(
    run_id="r1",
    project="p",
    trainer="t",
    schemas=("s",),
    kinds=("nominal",),
    params={},
    backend="local",
    state=State.RUNNING,
    attempt=1,
    trigger="api",
    created_at=1.0,
)


class Runs:
    """Runs in progress; a cancelled one ends when it is looked at so many times."""

    def __init__(self, *runs: Run, ends: bool = True) -> None:
        self.runs = {run.run_id: run for run in runs}
        self.ends = ends
        self.asked: list[str] = []
        self.held = threading.Event()
        self.cancelled: list[str] = []

    def hold(self) -> None:
        self.asked.append("hold")
        self.held.set()

    def cancel(self, run_id: str) -> None:
        self.asked.append(f"cancel {run_id}")
        self.cancelled.append(run_id)

    def current(self) -> list[Run]:
        return [run for run in self.runs.values() if not run.ended]

    def run(self, run_id: str) -> Run:
        if self.ends and run_id in self.cancelled:
            self.runs[run_id] = replace(self.runs[run_id], state=State.CANCELLED)
        return self.runs[run_id]


class Ended:
    """A server that got these signals one after the other."""

    def __init__(self, runs: Runs, *numbers: int, clock: Any = None) -> None:
        inbox: Inbox = SimpleQueue()
        for number in numbers:
            inbox.put(number)
        self.said: list[str] = []
        waiting = Ending(
            inbox,
            runs,
            hold=runs.hold,
            cancel=runs.cancel,
            outlook=lambda run: f"run {run.run_id} is {run.state}",
            tell=self.said.append,
            grace_s=20.0,
            **({"clock": clock} if clock else {}),
        )
        self.code = waiting.wait()
        self.tell_what_has_changed = waiting.tell_what_has_changed


@pytest.fixture(autouse=True)
def short_window(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "CANCEL_WINDOW_S", 0.05)
    monkeypatch.setattr(ending, "POLL_S", 0.01)


@pytest.mark.parametrize("number", [TERM, HUP])
def test_a_service_manager_gets_0_and_a_word_about_the_run(number: int) -> None:
    ended = Ended(Runs(RUN), number)
    assert ended.code == STOPPED
    assert ended.said == [f"stopping at {signal.Signals(number).name}", "run r1 is running"]


def test_ctrl_c_with_no_run_stops_at_once() -> None:
    ended = Ended(Runs(), INT)
    assert (ended.code, ended.said) == (INTERRUPTED, ["stopping at SIGINT"])


def test_the_first_ctrl_c_names_the_run_that_goes_on_and_says_when_the_server_stops() -> None:
    runs = Runs(RUN)
    ended = Ended(runs, INT)
    assert ended.code == INTERRUPTED
    assert ended.said == [
        "run r1 is running; Ctrl-C again within 0 s cancels it",
        "the server stops in 0 s",
        "stopping at SIGINT",
    ]
    assert runs.cancelled == []


def test_the_second_ctrl_c_cancels_it_and_waits_for_its_end() -> None:
    runs = Runs(RUN, replace(RUN, run_id="r2"))
    ended = Ended(runs, INT, INT)
    assert ended.code == INTERRUPTED
    assert runs.cancelled == ["r1", "r2"]
    assert ended.said[-3:] == ["run r1 is cancelled", "run r2 is cancelled", "stopping at SIGINT"]


def test_no_waiting_run_begins_once_the_end_was_asked_for() -> None:
    runs = Runs(RUN)
    Ended(runs, INT, INT)
    assert runs.asked == ["hold", "cancel r1"]


def test_a_run_that_began_just_before_the_queue_was_held_is_cancelled_too() -> None:
    class Late(Runs):
        looked_at = threading.Event()

        def current(self) -> list[Run]:
            try:
                return super().current()
            finally:
                self.looked_at.set()

        def hold(self) -> None:
            assert self.looked_at.wait(5.0)
            self.runs["r2"] = replace(RUN, run_id="r2")
            super().hold()

    runs = Late(RUN)
    ended = Ended(runs, INT, INT)
    assert set(runs.cancelled) == {"r1", "r2"}
    assert "run r2 is cancelled" in ended.said


@pytest.mark.parametrize("number", [TERM, HUP, INT])
def test_each_signal_holds_the_queue_also_with_nothing_in_progress(number: int) -> None:
    runs = Runs()
    Ended(runs, number)
    assert runs.held.wait(5.0)


def test_the_third_ctrl_c_does_not_wait() -> None:
    ended = Ended(Runs(RUN, ends=False), INT, INT, INT)
    assert ended.code == INTERRUPTED
    assert ended.said[-2:] == ["run r1 is running", "stopping at SIGINT"]


def test_the_wait_for_a_cancelled_run_is_bounded_by_its_grace() -> None:
    times = iter([0.0, 1.0, 24.0, 26.0])
    ended = Ended(Runs(RUN, ends=False), INT, INT, clock=lambda: next(times))
    assert ended.code == INTERRUPTED
    assert next(times, None) is None


def test_sigterm_in_the_window_stops_and_cancels_nothing() -> None:
    runs = Runs(RUN)
    assert Ended(runs, INT, TERM).code == STOPPED
    assert runs.cancelled == []


@pytest.mark.parametrize("numbers", [(TERM,), (INT,), (INT, INT)])
def test_a_run_that_has_moved_on_while_all_stopped_is_named_again(numbers: tuple[int, ...]) -> None:
    runs = Runs(RUN, replace(RUN, run_id="r2"), ends=False)
    ended = Ended(runs, *numbers, clock=itertools.count(step=10.0).__next__)
    runs.runs["r1"] = replace(RUN, state=State.EVALUATING)
    said = len(ended.said)
    ended.tell_what_has_changed()
    assert ended.said[said:] == ["run r1 is evaluating"]


def test_a_server_that_cannot_go_on_answers_1() -> None:
    assert Ended(Runs(RUN), BROKEN).code == FAILED
    assert Ended(Runs(RUN), INT, BROKEN).code == FAILED


def test_a_registry_that_cannot_be_read_keeps_nothing_from_stopping() -> None:
    class Unreadable(Runs):
        def current(self) -> list[Run]:
            raise ProjectUnreadable("It is damaged.")

    assert Ended(Unreadable(), TERM).code == STOPPED
    assert Ended(Unreadable(), INT).code == INTERRUPTED


def test_signals_go_into_the_inbox_and_their_handlers_come_back() -> None:
    inbox: Inbox = SimpleQueue()
    before = signal.getsignal(signal.SIGTERM)
    with signals_into(inbox):
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    assert [inbox.get_nowait(), inbox.get_nowait()] == [TERM, HUP]
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    inbox: Inbox = SimpleQueue()
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with signals_into(inbox):
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert inbox.empty()
