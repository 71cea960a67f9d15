"""A backend without processes: a thread plays the worker, in real job folders.

It does what the `play` parameter of the spec says (see playing_trainer.py). The workers belong to a
FakeMachine: they go on when nobody follows them, as real ones do, and any FakeBackend on it follows them.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Set
from pathlib import Path
from typing import Any

from potato_ray.backends.base import (
    Check,
    CheckReport,
    Directive,
    EventSink,
    Job,
    Outcome,
    Placement,
    Refusal,
)
from potato_ray.backends.choice import choose
from potato_ray.backends.gpus import Card, slots_of
from potato_ray.job.folder import Exit, JobFolder, Processes, read_json
from potato_ray.job.outcome import explain
from potato_ray.job.processes import identify

TICK_S = 0.01
TELL_EVERY_S = 0.5


class FakeMachine:
    """Cards, and the workers of all jobs that were ever started."""

    def __init__(self, cards: tuple[Card, ...] = ()) -> None:
        self.cards = cards
        self._workers: dict[Path, _Worker] = {}
        self._starting = threading.Lock()

    def worker(self, folder: Path) -> _Worker | None:
        return self._workers.get(folder)

    def started(self, folder: Path) -> _Worker:
        """The worker of a job, which is started once."""
        with self._starting:
            if folder not in self._workers:
                self._workers[folder] = _Worker(folder)
            return self._workers[folder]

    def lose(self, folder: Path) -> None:
        """Let a worker be gone without a word."""
        worker = self._workers[folder]
        worker.lost.set()
        worker.join()


class FakeBackend:
    """One view of a machine; not `ready`: no run could start."""

    def __init__(self, machine: FakeMachine, name: str = "fake", *, ready: bool = True) -> None:
        self.name = name
        self.type = "fake"
        self.machine = machine
        self.ready = ready

    def check(self) -> CheckReport:
        ready = Check("fake", self.ready, "ready" if self.ready else "switched off", "Switch it on.")
        return CheckReport(self.name, self.type, f"{self.name}: no machine", (ready,))

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        choice = choose(self.machine.cards if uses_gpu else (), "auto", taken=taken)
        if isinstance(choice, Refusal):
            return choice
        uuids = tuple(card.uuid for card in choice.cards)
        slots = slots_of(self.machine.cards)
        return Placement(
            self.name,
            "cuda" if uuids else "cpu",
            uuids,
            tuple(slots[uuid] for uuid in uuids),
            f"{self.name}: placed",
        )

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        known = self.machine.worker(job.folder)
        if known is not None and known.is_gone:
            return Outcome("interrupted", message="It was gone.", next_step="Start the run again.")
        return _Following(self.machine.started(job.folder), sink, job.first_seq).to_end()

    def alive(self, folder: Path) -> bool:
        worker = self.machine.worker(folder)
        return worker is not None and worker.is_alive


class _Following:
    """One execution."""

    def __init__(self, worker: _Worker, sink: EventSink, first_seq: int) -> None:
        self.worker = worker
        self.sink = sink
        self.seq = first_seq
        self.told_at = 0.0

    def to_end(self) -> Outcome:
        while True:
            ended = not self.worker.is_alive
            events = self.worker.events_from(self.seq)
            if events or time.monotonic() - self.told_at > TELL_EVERY_S:
                directive = self._tell(events)
                if directive.stale:
                    return Outcome("stale")
                if directive.cancel and self.worker.folder.path.exists():
                    self.worker.folder.request_cancel("cancelled", directive.grace_s)
            elif ended:
                return self.worker.outcome()
            time.sleep(TICK_S)

    def _tell(self, events: list[dict[str, Any]]) -> Directive:
        directive = self.sink(events, self.seq, ())
        self.seq, self.told_at = self.seq + len(events), time.monotonic()
        return directive


class _Worker:
    def __init__(self, folder: Path) -> None:
        self.folder = JobFolder(folder)
        self.lost = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_gone(self) -> bool:
        """Whether it left without an end."""
        return not self.is_alive and self.folder.path.exists() and not self.folder.exit.exists()

    def join(self) -> None:
        self._thread.join(10.0)

    def events_from(self, seq: int) -> list[dict[str, Any]]:
        try:
            whole = self.folder.events.read_text("utf-8").rpartition("\n")[0]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in whole.splitlines()[seq:]]

    def outcome(self) -> Outcome:
        if not self.folder.path.exists():
            return Outcome("error", "backend_failed", "Its folder was removed.", "", "Start the run again.")
        last = {event["event"]: event for event in self.events_from(0)}
        result = last.get("result")
        told = explain(self.folder.read_exit(), result, last.get("error"))
        return Outcome(*told, result=result or {})

    def _live(self) -> None:
        try:
            self._work()
        except FileNotFoundError:
            pass  # its folder was removed
        except _Lost:
            pass

    def _work(self) -> None:
        myself = identify(os.getpid())
        assert myself is not None
        self.folder.write_processes(Processes(myself, myself, time.time()))
        play = (read_json(self.folder.spec) or {})["params"]["play"]
        self._report(0)
        if play == "die":
            self.folder.write_exit(Exit(None, signal.SIGKILL))
        elif play == "leave":
            self.folder.write_exit(Exit(0, None))
        elif play == "fail":
            self._emit(
                "error", code="fit_failed", message="It was told to fail.", next_step="Tell it to succeed."
            )
            self.folder.write_exit(Exit(1, None))
        elif play in ("wait", "stubborn") and not self._may_go_on():
            self._stop(stubborn=play == "stubborn")
        else:
            self._report(5)
            self._predict()
            self.folder.write_exit(Exit(0, None))

    def _may_go_on(self) -> bool:
        while not (self.folder.path / "go").exists():
            if self.folder.cancel.exists():
                return False
            self._pass_time()
        return True

    def _stop(self, *, stubborn: bool) -> None:
        """End at once, or as long after the request as it allows."""
        grace_s = float((read_json(self.folder.cancel) or {})["grace_s"]) if stubborn else 0.0
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline:
            self._pass_time()
        self.folder.write_exit(Exit(4, None, reason="cancelled"))

    def _pass_time(self) -> None:
        if self.lost.wait(TICK_S):
            raise _Lost
        if not self.folder.path.exists():
            raise FileNotFoundError(self.folder.path)

    def _report(self, first: int) -> None:
        for step in range(first, first + 5):
            self._emit("metric", name="train_step", value=float(step), step=step)

    def _predict(self) -> None:
        with self.folder.predictions.open("w") as handle:
            for split in ("val", "test", "unlabeled"):
                for line in (self.folder.bundle / f"{split}.jsonl").read_text().splitlines():
                    body = {"instance_id": json.loads(line)["instance_id"], "schema_name": "tone"}
                    handle.write(json.dumps({**body, "payload": {"label": "good"}, "confidence": 1.0}) + "\n")
        self._emit("result", metrics={}, label_order=[], n_predictions=10)

    def _emit(self, event: str, /, **fields: Any) -> None:
        with self.folder.events.open("a") as handle:
            handle.write(json.dumps({"v": 1, "event": event, "t": time.time(), **fields}) + "\n")


class _Lost(Exception):
    """The worker is to be gone without a word."""
