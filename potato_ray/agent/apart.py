"""Work that may hang (a network, a disk), done in a thread that the agent does not have to wait for."""

from __future__ import annotations

import threading
from typing import Any, Callable, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """The work was let go of before its end; what it raises or returns later is nobody's concern."""


PART_S = 1.0
"""How long work that was let go of may take to notice."""


def apart(
    work: Callable[[], T],
    unwanted: Callable[[], bool],
    look_every_s: float,
    let_go: Callable[[], None],
) -> T:
    """The result of `work`, or what it raises. Raises Interrupted as soon as it is `unwanted`.

    `let_go` tells the work so. A thread that does not hear it goes on until its own timeouts end it, and
    never holds up the process.
    """
    box: dict[str, Any] = {}
    done = threading.Event()

    def do() -> None:
        try:
            box["result"] = work()
        except BaseException as failure:  # noqa: BLE001 - it is raised again below
            box["failure"] = failure
        finally:
            done.set()

    threading.Thread(target=do, name="apart", daemon=True).start()
    while not done.wait(look_every_s):
        if unwanted() and not done.is_set():
            let_go()
            if not done.wait(PART_S) or "failure" in box:
                raise Interrupted
    if "failure" in box:
        raise box["failure"]
    result: T = box["result"]
    return result
