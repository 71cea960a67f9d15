"""What the client does, apart from how: flows are generators that yield what they want done.

    def flow() -> Flow[str]:
        answer = yield from send(call)     # a whole answer
        yield from pause(1.0)
        yield Show(value)                  # gives a value to whoever iterates
        return "result"

A flow does no input or output of the network itself, so one flow serves both clients: blocking.py and
asynchronous.py do what is yielded and send the outcome in, or throw the error that it ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from potato_ray.client.answers import Answer
from potato_ray.client.calls import Call

T = TypeVar("T")


@dataclass(frozen=True)
class Send:
    """Send a call and read its whole answer."""

    call: Call


@dataclass(frozen=True)
class Open:
    """Send a call; the body of a good answer is left to read."""

    call: Call


@dataclass(frozen=True)
class Read:
    """The next piece of the opened answer; None at its end."""


@dataclass(frozen=True)
class Close:
    """Leave the opened answer."""


@dataclass(frozen=True)
class Pause:
    """Wait."""

    seconds: float


@dataclass(frozen=True)
class Do:
    """Call something that may block, such as writing to a file."""

    function: Callable[[], Any]


@dataclass(frozen=True)
class Show:
    """Give a value to whoever iterates over the flow."""

    value: Any


Effect = Send | Open | Read | Close | Pause | Do | Show
Flow = Generator[Effect, Any, T]


def send(call: Call) -> Flow[Answer]:
    """Raises ServerUnavailable when there is no answer."""
    return cast(Answer, (yield Send(call)))


def open_(call: Call) -> Flow[Answer]:
    """An opened answer; one flow has one at a time. Raises ServerUnavailable."""
    return cast(Answer, (yield Open(call)))


def read() -> Flow[bytes | None]:
    """Raises ServerUnavailable when the answer breaks off or stalls."""
    return cast("bytes | None", (yield Read()))


def close() -> Flow[None]:
    yield Close()


def pause(seconds: float) -> Flow[None]:
    yield Pause(seconds)


def do(function: Callable[[], T]) -> Flow[T]:
    return cast(T, (yield Do(function)))


class Steps(Generic[T]):
    """A flow that is being gone through: `effect` is what it wants now, None when it has ended."""

    def __init__(self, flow: Flow[T]) -> None:
        self._flow = flow
        self.effect: Effect | None = None
        self._result: T | None = None
        self.go_on(None)

    @property
    def result(self) -> T:
        return cast(T, self._result)

    def go_on(self, outcome: Any) -> None:
        """Tell the flow what came of its effect."""
        self._advance(lambda: self._flow.send(outcome))

    def fail(self, error: Exception) -> None:
        """Tell the flow that its effect failed; raises what the flow makes of it."""
        self._advance(lambda: self._flow.throw(error))

    def _advance(self, step: Callable[[], Effect]) -> None:
        try:
            self.effect = step()
        except StopIteration as end:
            self.effect, self._result = None, end.value

    def close(self) -> None:
        """Run the flow's finally blocks, whether it has ended or not."""
        self._flow.close()
