"""Sinks for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from potato_ray.backends.base import Backend, Directive, EventSink, Job

DEADLINE_S = 60.0


class Listener:
    """A sink that keeps what it hears and answers what it is told to.

    `calls` are (first_seq, number of events) of every call.
    """

    def __init__(self, answer: Callable[[Listener], Directive] = lambda heard: Directive()) -> None:
        self.answer = answer
        self.events: list[Mapping[str, Any]] = []
        self.calls: list[tuple[int, int]] = []
        self.notes: list[Mapping[str, Any]] = []
        self.called_at: list[float] = []

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        self.events += events
        self.notes += notes
        self.calls.append((first_seq, len(events)))
        self.called_at.append(time.monotonic())
        assert self.called_at[-1] - self.called_at[0] < DEADLINE_S, "the run does not end"
        return self.answer(self)

    @property
    def n_steps(self) -> int:
        return sum(event["event"] == "metric" for event in self.events)

    @property
    def steps(self) -> list[int]:
        """The steps of the metrics that it has heard."""
        return [event["step"] for event in self.events if event["event"] == "metric"]


class SupervisorLost(Exception):
    """The process that follows the run dies."""


def cancel_after_five(heard: Listener) -> Directive:
    """Cancel once the trainer has reported five metrics."""
    return Directive(cancel=heard.n_steps >= 5, grace_s=1.0)


def lose_at_once(heard: Listener) -> Directive:
    """Die at the first call."""
    raise SupervisorLost


def lose_after_five(heard: Listener) -> Directive:
    """Die once the trainer has reported five metrics."""
    if heard.n_steps >= 5:
        raise SupervisorLost
    return Directive()


def left_by(backend: Backend, job: Job, sink: EventSink) -> None:
    """Follow a job with a sink that dies."""
    with pytest.raises(SupervisorLost):
        backend.execute(job, sink)
