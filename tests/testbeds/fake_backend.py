"""A backend without processes: a thread plays the worker, in real job folders.

It does what the `play` parameter of the spec says (see playing_trainer.py). Its workers go on when
nobody follows them, as real ones do, and end with `close`.
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

from potato_ray.backends.base import Check, CheckReport, EventSink, Job, Outcome, Placement, Refusal
from potato_ray.backends.choice import choose
from potato_ray.backends.gpus import Card, slots_of
from potato_ray.job.folder import Exit, JobFolder, Processes, read_json
from potato_ray.job.outcome import explain
from potato_ray.job.processes import identify

TICK_S = 0.01
TELL_EVERY_S = 0.5


class FakeBackend:
    """Cards and workers of no machine."""

    def __init__(self, name: str = "fake", cards: tuple[Card, ...] = ()) -> None:
        self.name = name
        self.type = "fake"
        self.cards = cards
        self._workers: dict[Path, _Worker] = {}

    def check(self) -> CheckReport:
        return CheckReport(self.name, self.type, f"{self.name}: no machine", (Check("fake", True, "ready"),))

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        choice = choose(self.cards if uses_gpu else (), "auto", taken=taken)
        if isinstance(choice, Refusal):
            return choice
        uuids = tuple(card.uuid for card in choice.cards)
        slots = slots_of(self.cards)
        return Placement(
            self.name,
            "cuda" if uuids else "cpu",
            uuids,
            tuple(slots[uuid] for uuid in uuids),
            f"{self.name}: placed",
        )

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        worker = self._workers.setdefault(job.folder, _Worker(job.folder))
        worker.ensure_started()
        seq, told_at = job.first_seq, 0.0
        while True:
            ended = not worker.is_alive
            events = worker.events_from(seq)
            if events or time.monotonic() - told_at > TELL_EVERY_S:
                directive = sink(events, seq, ())
                seq, told_at = seq + len(events), time.monotonic()
                if directive.stale:
                    return Outcome("stale")
                if directive.cancel:
                    worker.folder.request_cancel("cancelled", directive.grace_s)
            elif ended:
                return worker.outcome()
            time.sleep(TICK_S)

    def alive(self, folder: Path) -> bool:
        return folder in self._workers and self._workers[folder].is_alive

    def close(self) -> None:
        """End every worker."""
        for worker in self._workers.values():
            worker.folder.request_cancel("cancelled", 0.0)
            worker.join()


class _Worker:
    def __init__(self, folder: Path) -> None:
        self.folder = JobFolder(folder)
        self._thread = threading.Thread(target=self._work, daemon=True)

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def ensure_started(self) -> None:
        if self._thread.ident is None:
            self._thread.start()

    def join(self) -> None:
        if self._thread.ident is not None:
            self._thread.join(10.0)

    def events_from(self, seq: int) -> list[dict[str, Any]]:
        if not self.folder.events.exists():
            return []
        whole = self.folder.events.read_text("utf-8").rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()[seq:]]

    def outcome(self) -> Outcome:
        last = {event["event"]: event for event in self.events_from(0)}
        result = last.get("result")
        told = explain(self.folder.read_exit(), result, last.get("error"))
        return Outcome(*told, result=result or {})

    def _work(self) -> None:
        myself = identify(os.getpid())
        assert myself is not None
        self.folder.write_processes(Processes(myself, myself, time.time()))
        play = (read_json(self.folder.spec) or {})["params"]["play"]
        self._report(0)
        if play == "die":
            self.folder.write_exit(Exit(None, signal.SIGKILL))
        elif play == "fail":
            self._emit(
                "error", code="fit_failed", message="It was told to fail.", next_step="Tell it to succeed."
            )
            self.folder.write_exit(Exit(1, None))
        elif play == "wait" and not self._may_go_on():
            self.folder.write_exit(Exit(4, None, reason="cancelled"))
        else:
            self._report(5)
            self._predict()
            self.folder.write_exit(Exit(0, None))

    def _may_go_on(self) -> bool:
        while not (self.folder.path / "go").exists():
            if self.folder.cancel.exists():
                return False
            time.sleep(TICK_S)
        return True

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
