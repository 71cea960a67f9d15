"""Flows done in the calling thread, with an httpx.Client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, TypeVar

import httpx

from potato_ray.client.answers import Answer
from potato_ray.client.calls import Call
from potato_ray.client.effects import Close, Do, Effect, Flow, Open, Pause, Read, Send, Show, Steps
from potato_ray.client.wire import Gathering, Wire, answer_of

T = TypeVar("T")


class Blocking:
    """Does flows. `sleep` is how it waits."""

    def __init__(self, wire: Wire, http: httpx.Client) -> None:
        self.wire = wire
        self.http = http
        self.sleep = time.sleep

    def run(self, flow: Flow[T]) -> T:
        """Do a flow that shows nothing; what it returns."""
        with closing(Steps(flow)) as steps, closing(_Opened(self)) as opened:
            while steps.effect is not None:
                self._perform(steps, opened)
            return steps.result

    def iterate(self, flow: Flow[None]) -> Iterator[Any]:
        """Do a flow; what it shows."""
        with closing(Steps(flow)) as steps, closing(_Opened(self)) as opened:
            while steps.effect is not None:
                if isinstance(steps.effect, Show):
                    yield steps.effect.value
                    steps.go_on(None)
                else:
                    self._perform(steps, opened)

    def close(self) -> None:
        self.http.close()

    def _perform(self, steps: Steps[Any], opened: _Opened) -> None:
        try:
            outcome = self._outcome(steps.effect, opened)
        except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
            steps.fail(error)
        else:
            steps.go_on(outcome)

    def _outcome(self, effect: Effect | None, opened: _Opened) -> Any:
        match effect:
            case Send(call):
                with closing(_Opened(self)) as whole:
                    return whole.gather(call, whole.open(call))
            case Open(call):
                answer = opened.open(call)
                return answer if answer.is_good else opened.gather(call, answer)
            case Read():
                return opened.read()
            case Close():
                return opened.close()
            case Pause(seconds):
                return self.sleep(seconds)
            case Do(function):
                return function()
        raise TypeError(f"{effect} is nothing that can be done")


class _Opened:
    """The answer that a flow is reading, if any."""

    def __init__(self, driver: Blocking) -> None:
        self._driver = driver
        self._call = Call("", "")
        self._response: httpx.Response | None = None
        self._pieces: Iterator[bytes] = iter(())

    def open(self, call: Call) -> Answer:
        self.close()
        self._call = call
        request = self._driver.wire.request(call)
        try:
            self._response = self._driver.http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise self._driver.wire.failure(call, error) from None
        self._pieces = self._response.iter_bytes()
        return answer_of(self._response)

    def gather(self, call: Call, answer: Answer) -> Answer:
        """The same answer with its whole body."""
        gathering = Gathering(self._driver.wire, call)
        while (piece := self.read()) is not None:
            gathering.add(piece)
        return gathering.complete(answer)

    def read(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except httpx.HTTPError as error:
            raise self._driver.wire.failure(self._call, error) from None

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
        self._response, self._pieces = None, iter(())
