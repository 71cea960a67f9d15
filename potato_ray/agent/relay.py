"""Telling the server how a job goes, from a thread of its own: events as they grow, notes, and that we live.

    events.jsonl ─▶ batch ─▶ progress request ─▶ {"cancel", "grace_seconds", "next_seq"}

What has not been confirmed is sent again, however long the server was away: the events lie on disk, and the
server's `next_seq` says from where. What the server says of the job is found in `cancel_grace_s` and `over`.
"""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Callable, Mapping

from potato_ray.agent.batches import Batch, Batches
from potato_ray.agent.contact import Contact
from potato_ray.agent.errors import (
    AgentError,
    ProtocolMismatch,
    Refused,
    ServerUnreachable,
    WrongToken,
)
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import MB, seconds
from potato_ray.agent.patience import Patience
from potato_ray.agent.protocol import GAP, TOO_SLOW
from potato_ray.agent.settings import Timing
from potato_ray.agent.voice import Voice

TOO_MANY = "events_too_large"
"""413: the server takes no more events of this run."""
UNREADABLE = frozenset({400, 413, 422})
"""The server cannot take these events, however often they are sent."""
CUT = frozenset({TOO_SLOW, "server_too_slow", "server_unreachable", "answer_torn"})
"""What becomes of a batch that is more than the link carries at a time."""
QUICK_S = 5.0
"""A batch that takes no longer lets the next one be larger."""
MOST_NOTES = 50
"""That wait; a server takes more in one request."""
JOIN_S = 2.0
MOVING_EVERY_S = 1.0


class Relay:
    """One per job in hand, for the length of a `with` block. `contact` is used by its thread alone."""

    def __init__(
        self,
        held: HeldJob,
        contact: Contact,
        timing: Timing,
        voice: Voice,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.alive = False
        """Whether a worker lives, as the server is told."""
        self.cancel_grace_s: float | None = None
        """The server wants the job cancelled, within so many seconds; None: it does not."""
        self.over = ""
        """Why the server has let go of this job; "" while it has not."""
        self.mismatch: ProtocolMismatch | None = None
        """Why this agent and the server, as it is at present, cannot talk."""
        self.full = ""
        """Why the server takes no more events of this job; "" while it does."""
        self.confirmed = 0
        """So many events have reached the server."""
        self._held = held
        self._contact = contact
        self._voice = voice
        self._clock = clock
        self._every_s = min(held.job.progress_every_s, timing.silent_at_most_s)
        self._tell_every_s = min(timing.tell_every_s, self._every_s)
        self._look_every_s = timing.look_every_s
        self._batches = Batches(held.folder)
        self._notes: list[dict[str, Any]] = []
        self._notes_lock = threading.Lock()
        self._awake = threading.Event()
        self._end = threading.Event()
        self._patience = Patience(
            self._end, first_s=timing.first_retry_s, longest_s=timing.longest_retry_s, clock=clock
        )
        self._next_at = self._due_at = clock()
        self._heard_at = clock()
        self.missing = False
        """Whether the last request got no good answer."""
        self.token_refused = False
        """Whether the server refuses the token since its last good answer; that was said then."""
        self._moved_at = clock()
        self._thread = threading.Thread(target=self._run, name=f"relay of {held.job.run_id}", daemon=True)

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._awake.set()
        # A request that hangs holds its thread, not the end of the job.
        self._thread.join(timeout=JOIN_S)

    @property
    def silent_s(self) -> float:
        """Seconds since the server's last good answer, or since the begin."""
        return self._clock() - self._heard_at

    @property
    def heard_at(self) -> float:
        """When the last good answer came, by the relay's clock."""
        return self._heard_at

    def step(self, words: str) -> None:
        """Tell people what the agent is at; of several that wait, the last one is told."""
        with self._notes_lock:
            waiting = [note for note in self._notes if note["kind"] != "step"]
            self._notes = [*waiting, {"kind": "step", "step": words}]

    def moving(self, what: str, n_bytes: int, of_bytes: int) -> None:
        """A step that says how much of something has moved; at most once a second, and at the begin."""
        now = self._clock()
        if n_bytes and now - self._moved_at < MOVING_EVERY_S:
            return
        self._moved_at = now
        amount = f", {n_bytes / MB:.0f} of {of_bytes / MB:.0f} MB" if of_bytes >= MB else ""
        self.step(what + amount)

    def log(self, words: str, level: str = "info") -> None:
        """A line in the run's log."""
        with self._notes_lock:
            if len(self._notes) < MOST_NOTES:
                self._notes.append({"kind": "log", "level": level, "message": words})

    def hurry(self) -> None:
        """Send at once what there is to send."""
        self._awake.set()

    def resend_from(self, seq: int) -> None:
        """The server lacks events from this number on."""
        self._batches.go_to(seq)
        self.confirmed = seq
        self.hurry()

    def _run(self) -> None:
        while not self._end.is_set() and not self.over:
            try:
                self._look()
            except Exception as failure:  # noqa: BLE001 - this thread must not die: it says that we live
                self._missed(failure)

    def _look(self) -> None:
        """Tell what there is to tell, if it is time."""
        hurried = self._awake.wait(self._look_every_s)
        self._awake.clear()
        now = self._clock()
        if now < self._next_at and not (hurried and not self.missing):
            return
        batch = self._next_batch()
        if batch.events or self._notes or hurried or now >= self._due_at:
            self._tell(batch)

    def _next_batch(self) -> Batch:
        if self.full:
            return Batch(self.confirmed)
        try:
            return self._batches.next()
        except OSError as failure:  # a sick disk; the server hears that we live
            self._voice.say(f"the job's events cannot be read: {failure}")
            self._next_at = self._clock() + self._every_s
            return Batch(self.confirmed)

    def _tell(self, batch: Batch) -> None:
        with self._notes_lock:
            notes = list(self._notes)
        body = {
            "first_seq": batch.first_seq,
            "events": batch.events,
            "notes": notes,
            "alive": self.alive,
        }
        began_at = self._clock()
        try:
            try:
                answer = self._contact.progress(self._held, body)
            except Refused as refused:
                self._refused(refused, bool(batch.events))
                return
            self._understand(answer, batch.first_seq if batch.events else None)
            self._forget(notes)
            if batch.events and self._clock() - began_at < QUICK_S:
                self._batches.make_heavier()
        except (AgentError, OSError) as failure:
            if batch.events and isinstance(failure, ServerUnreachable) and failure.code in CUT:
                self._batches.make_lighter()
            self._missed(failure)

    def _forget(self, notes: list[dict[str, Any]]) -> None:
        with self._notes_lock:
            self._notes = [note for note in self._notes if not any(note is told for told in notes)]

    def _understand(self, answer: Mapping[str, Any], sent_from: int | None) -> None:
        """Take in a good answer; `sent_from` is the first event that was sent, None for none."""
        next_seq = answer.get("next_seq")
        if not isinstance(next_seq, int) or next_seq < 0:
            raise AgentError("The server's answer to the progress holds no next_seq.")
        self._batches.go_to(next_seq)
        self.confirmed = next_seq
        if answer.get("cancel"):
            self.cancel_grace_s = seconds(answer.get("grace_seconds"), self._held.job.grace_s)
        in_vain = sent_from is not None and next_seq <= sent_from
        self._good(self._every_s if in_vain else self._tell_every_s)

    def _good(self, wait_s: float) -> None:
        now = self._clock()
        if self.missing:
            self._voice.say(f"the server answers again, after {now - self._heard_at:.0f} s")
        self.missing = self.token_refused = False
        self.mismatch = None
        self._patience.success()
        self._heard_at = now
        self._next_at = now + wait_s
        self._due_at = now + self._every_s

    def _refused(self, refused: Refused, had_events: bool) -> None:
        if refused.lets_go:
            self.over = refused.message
        elif refused.status == 409 and refused.code == GAP:
            self._understand(refused.body, None)
        elif refused.status in UNREADABLE and had_events:
            if refused.code == TOO_MANY or not self._batches.make_smaller(refused.message):
                self.full = refused.message
            self._good(self._tell_every_s)
        else:
            self._missed(refused)

    def _missed(self, failure: Exception) -> None:
        refused = isinstance(failure, WrongToken)
        if not self.missing or (refused and not self.token_refused):
            self._voice.say(f"no good answer from the server; it is told again: {failure}")
        self.missing, self.token_refused = True, refused or self.token_refused
        self.mismatch = failure if isinstance(failure, ProtocolMismatch) else None
        wait_s = self._patience.next_wait_s(getattr(failure, "retry_after_s", None))
        self._next_at = self._due_at = self._clock() + wait_s
