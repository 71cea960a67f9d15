"""Work that takes long, in a thread that keeps neither requests nor the end of the server waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def in_background(work: Callable[[], T], name: str) -> asyncio.Future[T]:
    """What `work` returns or raises, later. Its thread, a daemon, is called `name`."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def succeed(result: T) -> None:
        if not future.done():
            future.set_result(result)

    def fail(error: Exception) -> None:
        if not future.done():
            future.set_exception(error)
            future.exception()  # nobody may be waiting any more

    def run() -> None:
        try:
            result = work()
        except Exception as failure:  # noqa: BLE001 - it is raised where it is awaited
            _tell(loop, fail, failure)
        else:
            _tell(loop, succeed, result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _tell(loop: asyncio.AbstractEventLoop, settle: Callable[[T], None], outcome: T) -> None:
    try:
        loop.call_soon_threadsafe(settle, outcome)
    except RuntimeError:
        pass  # the server has ended meanwhile
