"""Flows done in an event loop, with an httpx.AsyncClient."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from typing import Any, TypeVar

import httpx

from potato_ray.client.answers import Answer
from potato_ray.client.calls import Call
from potato_ray.client.effects import Close, Do, Effect, Flow, Open, Pause, Read, Send, Show, Steps
from potato_ray.client.wire import Gathering, Wire, answer_of

T = TypeVar("T")


class Asynchronous:
    """Does flows. `sleep` is how it waits."""

    def __init__(self, wire: Wire, http: httpx.AsyncClient) -> None:
        self.wire = wire
        self.http = http
        self.sleep = asyncio.sleep

    async def run(self, flow: Flow[T]) -> T:
        """Do a flow that shows nothing; what it returns."""
        with closing(Steps(flow)) as steps:
            async with aclosing(_Opened(self)) as opened:
                while steps.effect is not None:
                    await self._perform(steps, opened)
                return steps.result

    async def iterate(self, flow: Flow[None]) -> AsyncIterator[Any]:
        """Do a flow; what it shows."""
        with closing(Steps(flow)) as steps:
            async with aclosing(_Opened(self)) as opened:
                while steps.effect is not None:
                    if isinstance(steps.effect, Show):
                        yield steps.effect.value
                        steps.go_on(None)
                    else:
                        await self._perform(steps, opened)

    async def aclose(self) -> None:
        await self.http.aclose()

    async def _perform(self, steps: Steps[Any], opened: _Opened) -> None:
        try:
            outcome = await self._outcome(steps.effect, opened)
        except Exception as error:  # noqa: BLE001 - the flow decides what becomes of it
            steps.fail(error)
        else:
            steps.go_on(outcome)

    async def _outcome(self, effect: Effect | None, opened: _Opened) -> Any:
        match effect:
            case Send(call):
                async with aclosing(_Opened(self)) as whole:
                    return await whole.gather(call, await whole.open(call))
            case Open(call):
                answer = await opened.open(call)
                return answer if answer.is_good else await opened.gather(call, answer)
            case Read():
                return await opened.read()
            case Close():
                return await opened.aclose()
            case Pause(seconds):
                return await self.sleep(seconds)
            case Do(function):
                return await asyncio.to_thread(function)
        raise TypeError(f"{effect} is nothing that can be done")


class _Opened:
    """The answer that a flow is reading, if any."""

    def __init__(self, driver: Asynchronous) -> None:
        self._driver = driver
        self._call = Call("", "")
        self._response: httpx.Response | None = None
        self._pieces: AsyncIterator[bytes] | None = None

    async def open(self, call: Call) -> Answer:
        await self.aclose()
        self._call = call
        request = self._driver.wire.request(call)
        try:
            self._response = await self._driver.http.send(request, stream=True)
        except httpx.HTTPError as error:
            raise self._driver.wire.failure(call, error) from None
        self._pieces = self._response.aiter_bytes()
        return answer_of(self._response)

    async def gather(self, call: Call, answer: Answer) -> Answer:
        """The same answer with its whole body."""
        gathering = Gathering(self._driver.wire, call)
        while (piece := await self.read()) is not None:
            gathering.add(piece)
        return gathering.complete(answer)

    async def read(self) -> bytes | None:
        if self._pieces is None:
            return None
        try:
            return await anext(self._pieces, None)
        except httpx.HTTPError as error:
            raise self._driver.wire.failure(self._call, error) from None

    async def aclose(self) -> None:
        if self._response is not None:
            await self._response.aclose()
        self._response = self._pieces = None
