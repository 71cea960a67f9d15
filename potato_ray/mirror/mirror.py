"""One mirror: who may write into it, and in what order what an agent sends becomes durable.

    held ─▶ events, notes (any number of times) ─▶ predictions ─▶ end
            └ checked each time: the lease and the attempt in claim.json

Whatever is sent again changes nothing, and is answered as the first time.
"""

from __future__ import annotations

import hmac
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from potato_ray.job.folder import write_json
from potato_ray.mirror.durable import Lines, put_text, sync_folder
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.mirror.reading import Progress, Result
from potato_ray.mirror.refusals import EventsMissing, TooLarge, predictions_missing, stale

VERSION = 1
MAX_EVENTS_BYTES = 256 * 2**20
"""Of one run: far more than any trainer says, and no full disk."""
MAX_NOTES_BYTES = 8 * 2**20
TAIL_CHARS = 16 * 1024
"""Of stderr_tail in result.json; stderr.log has all of it."""


@dataclass(frozen=True)
class Holder:
    """Who says that he has a run in hand: the attempt, and the sha256 of the lease in hex."""

    attempt: int
    lease_sha256: str


class Mirror:
    """Takes what the agent of one run sends. Safe to use in threads; raises OSError.

    `clock` gives epoch seconds UTC.
    """

    def __init__(self, path: Path, clock: Any = time.time) -> None:
        self.folder = MirrorFolder(path)
        self._clock = clock
        self._lock = threading.RLock()
        self._holder: Holder | None = None
        self._events = Lines(self.folder.events)
        self._notes = Lines(self.folder.notes)
        self._noted: tuple[int, frozenset[bytes]] = (0, frozenset())
        self.upload_number = 0
        """Of the upload of predictions that was begun last; one of a lower number has been replaced."""

    @property
    def is_busy(self) -> bool:
        """Whether somebody is at work on it."""
        if not self._lock.acquire(blocking=False):
            return True
        self._lock.release()
        return False

    def has_ended_as(self, result: Result, holder: Holder) -> bool:
        """Whether this very end of this holder has been taken already. Changes nothing."""
        told = self.folder.read_result()
        return told is not None and _essence(told) == _essence(_told(result, holder))

    @contextmanager
    def held(self, holder: Holder) -> Iterator[None]:
        """Let the one who holds the run write, for the length of the block, and nobody else beside him.

        Raises Conflict (stale_attempt).
        """
        with self._lock:
            claim = self.folder.read_claim()
            if claim is None:
                raise stale("Nobody has it in hand.")
            if not hmac.compare_digest(str(claim.lease_sha256), holder.lease_sha256):
                raise stale("It was given out for another lease.")
            if claim.attempt != holder.attempt:
                raise stale(f"Its present attempt is {claim.attempt}.")
            self._begin(holder)
            self.folder.beat()
            yield

    def next_seq(self) -> int:
        """The number of the next event that is missing. While it is held."""
        return self._events.look()

    def take(self, report: Progress) -> int:
        """Keep what is new of a report; the number of the next event. While it is held.

        Raises EventsMissing, TooLarge, and Conflict (stale_attempt) for new events behind the result.
        """
        known = self._events.look()
        if report.first_seq > known:
            raise EventsMissing(known, f"They begin with number {report.first_seq}; {known} have arrived.")
        fresh = report.events[known - report.first_seq :]
        if fresh and self.folder.result.exists():
            raise stale("Its result has been taken already.")
        self.folder.beat(report.alive)
        if report.alive or fresh:
            self.folder.note_start(self._clock())
        # What is said with a worker's first words was said of its start: who reads sees it with them.
        opening = known == 0
        if opening:
            self._note(report)
        if fresh:
            self._append(fresh)
        if not opening:
            self._note(report)
        return self._events.count

    def _append(self, fresh: tuple[bytes, ...]) -> None:
        if self._events.n_bytes + sum(map(len, fresh)) > MAX_EVENTS_BYTES:
            raise TooLarge(
                "This run has said too much.",
                code="events_too_large",
                evidence=f"Its events are more than {MAX_EVENTS_BYTES // 2**20} MiB.",
                next_step="Let its trainer say less.",
            )
        self._events.append(fresh)

    def _note(self, report: Progress) -> None:
        """Notes have no numbers: those that come again with the same events were lost on the way back."""
        before = self._noted[1] if self._noted[0] == report.first_seq else frozenset()
        fresh = [note for note in report.notes if note not in before]
        if fresh:
            self._notes.look()
            if self._notes.n_bytes < MAX_NOTES_BYTES:
                self._notes.append(fresh)
        if report.notes:
            self._noted = (report.first_seq, frozenset(report.notes))

    def end(self, result: Result) -> None:
        """Keep the end of the job; result.json, written last, says that all of it is there. While it is held.

        Raises EventsMissing, Conflict (predictions_missing, or stale_attempt for another end).
        """
        holder = self._holder
        if holder is None or self.has_ended_as(result, holder):
            return
        if self.folder.result.exists():
            raise stale("Another result of it has been taken already.")
        known = self._events.look()
        if result.next_seq > known:
            raise EventsMissing(known, f"The result counts {result.next_seq}; {known} have arrived.")
        if result.is_success and not self.folder.predictions.is_file():
            raise predictions_missing()
        self.folder.beat(working=False)
        put_text(self.folder.stderr, result.stderr_tail)
        put_text(self.folder.agent_log, result.agent_log)
        if result.exit is not None:
            self.folder.write_exit(result.exit)
        write_json(self.folder.result, {**_told(result, holder), "received_at": self._clock()})
        sync_folder(self.folder.path)

    def _begin(self, holder: Holder) -> None:
        """Know the holder; what an earlier attempt has sent is none of his."""
        if holder == self._holder:
            return
        path = self.folder.path / "mirror.json"
        if _whose(path) != asdict(holder):
            self.folder.forget_sent()
            write_json(path, asdict(holder))
        self._holder, self._noted = holder, (0, frozenset())
        self.upload_number += 1


def _whose(path: Path) -> Mapping[str, Any] | None:
    try:
        body = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _told(result: Result, holder: Holder) -> dict[str, Any]:
    """What result.json says."""
    return {
        "v": VERSION,
        **asdict(holder),
        "exit": None if result.exit is None else asdict(result.exit),
        "failure": None if result.failure is None else asdict(result.failure),
        "next_seq": result.next_seq,
        "artifact_uri": result.artifact_uri,
        "stderr_tail": result.stderr_tail[-TAIL_CHARS:],
    }


def _essence(told: Mapping[str, Any]) -> list[Any]:
    """What makes two ends the same: an agent that was restarted may have more in its log."""
    names = ("attempt", "lease_sha256", "exit", "failure", "next_seq")
    return [told.get(name) for name in names]


KEPT = 128
"""The mirrors that are remembered; of one that is not, the events are counted again."""
_mirrors: OrderedDict[Path, Mirror] = OrderedDict()
_knowing = threading.Lock()


def mirror_of(path: Path) -> Mirror:
    """The one mirror of a run's folder in this process."""
    with _knowing:
        mirror = _mirrors.get(path)
        if mirror is None:
            mirror = _mirrors[path] = Mirror(path)
        _mirrors.move_to_end(path)
        for old in list(_mirrors)[:-KEPT]:
            if not _mirrors[old].is_busy:
                del _mirrors[old]
        return mirror
