"""The messages of a stream, as the bytes that go over the line. See docs/streaming.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potato_ray.registry.journal import Entry
from potato_ray.registry.runs import to_json
from potato_ray.server.context import ServerContext
from potato_ray.server.run_answers import told_event

RETRY = b"retry: 2000\n\n"
"""For browsers: reconnect after 2 s."""
HEARTBEAT = b": nothing new\n\n"


@dataclass(frozen=True)
class Page:
    """The messages of some entries of the journal, up to number `upto`: all, and those of each run."""

    upto: int
    everything: bytes
    of_run: Mapping[str, bytes]

    def of(self, run_id: str | None) -> bytes:
        """The messages about one run; None: all."""
        return self.everything if run_id is None else self.of_run.get(run_id, b"")


def page(context: ServerContext, upto: int, entries: Sequence[Entry]) -> Page:
    """The page of all entries up to number `upto` that come behind the page before."""
    said = [(entry.run_id, of_entry(context, entry)) for entry in entries]
    of_run: dict[str, bytes] = {}
    for run_id, message in said:
        of_run[run_id] = of_run.get(run_id, b"") + message
    return Page(upto, b"".join(message for _, message in said), of_run)


def of_entry(context: ServerContext, entry: Entry) -> bytes:
    """One `run` message: an event, or a change of the run's status."""
    return _message("run", entry.number, {**told_event(context, entry.said), "run_id": entry.run_id})


def of_status(number: int, overview: Mapping[str, Any]) -> bytes:
    """One `status` message, for a client that has seen the journal up to `number`."""
    return _message("status", number, overview)


def _message(event: str, number: int, data: Mapping[str, Any]) -> bytes:
    # In ASCII, and so without any of the line breaks that would end a message.
    return f"id: {number}\nevent: {event}\ndata: {to_json(data)}\n\n".encode("ascii")
