"""Sinks for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from potato_ray.backends.base import Directive

DEADLINE_S = 60.0


class Listener:
    """A sink that keeps what it hears and answers what it is told to."""

    def __init__(self, answer: Callable[[Listener], Directive] = lambda heard: Directive()) -> None:
        self.answer = answer
        self.events: list[Mapping[str, Any]] = []
        self.first_seqs: list[int] = []
        self.notes: list[Mapping[str, Any]] = []
        self.called_at: list[float] = []

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        self.events += events
        self.notes += notes
        self.first_seqs += [first_seq] if events else []
        self.called_at.append(time.monotonic())
        assert self.called_at[-1] - self.called_at[0] < DEADLINE_S, "the run does not end"
        return self.answer(self)

    @property
    def n_steps(self) -> int:
        return sum(event["event"] == "metric" for event in self.events)


class SupervisorLost(Exception):
    """The process that follows the run dies."""


def cancel_after_five(heard: Listener) -> Directive:
    """Cancel once the trainer has reported five metrics."""
    return Directive(cancel=heard.n_steps >= 5, grace_s=1.0)


def lose_after_five(heard: Listener) -> Directive:
    """Die once the trainer has reported five metrics."""
    if heard.n_steps >= 5:
        raise SupervisorLost
    return Directive()
