"""A feed on a project of tests, the runs that move it, and clients that read it in this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from potato_ray.registry import NewRun, State
from potato_ray.server.feed import Feed

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
SLOTS = 99


@dataclass(frozen=True)
class Message:
    event: str
    number: int
    data: dict[str, Any]


def parsed(raw: bytes) -> list[Message]:
    found = []
    for block in raw.decode("ascii").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line[1:])
        if "event" in fields:
            found.append(Message(fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return found


class Client:
    """Reads a stream of a feed in this process."""

    def __init__(self, feed: Feed, number: int, run_id: str | None = None, allowed=lambda: True) -> None:
        self.began = self.number = number
        self.raw: list[bytes] = []
        self.heard: list[Message] = []
        self._stream = feed.stream(number, run_id, allowed)

    async def next(self, within_s: float = 5.0) -> bytes:
        chunk = await asyncio.wait_for(anext(self._stream), within_s)
        self.raw.append(chunk)
        for message in parsed(chunk):
            self.heard.append(message)
            self.number = message.number
        return chunk

    async def until(self, reached) -> None:
        while not reached(self):
            await self.next()

    async def close(self) -> None:
        await self._stream.aclose()

    def told(self) -> list[tuple[str, object]]:
        """(run id, event id or status) of each `run` message."""
        runs = [each.data for each in self.heard if each.event == "run"]
        return [(data["run_id"], data.get("id") or data["status"]) for data in runs]

    def statuses(self) -> list[dict[str, Any]]:
        return [each.data for each in self.heard if each.event == "status"]


class Project:
    """A project with a feed, and runs that a test moves along."""

    def __init__(self, served) -> None:
        self.served = served
        self.link = served.controller
        self.registry = served.controller.registry
        self.feed = Feed(served.context, poll_s=0.01)

    def begin(self) -> str:
        rule = {"queue_max": 99, "allow_queue": True, "max_concurrent": SLOTS}
        run_id = self.link.write(self.registry.create_run, NEW, **rule).run_id
        self.link.write(self.registry.begin, run_id, None, SLOTS)
        return run_id

    def say(self, run_id: str, *messages: str) -> None:
        for message in messages:
            said = {"event": "log", "level": "info", "message": message}
            self.link.write(self.registry.record_note, run_id, 1, said)

    def end(self, run_id: str, state: State = State.ERROR) -> None:
        self.link.write(self.registry.transition, run_id, 1, state)

    def move_registry_away(self) -> None:
        self.link.write(self.registry.close)
        folder = self.served.config.registry_path.parent
        for each in folder.glob("project.sqlite*"):
            each.rename(each.with_name(f"old.{each.name}"))

    async def client(self, number: int | None = None, **kwargs: Any) -> Client:
        now = await self.feed.begin()
        return Client(self.feed, now if number is None else number, **kwargs)
