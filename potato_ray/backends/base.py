"""The protocol that every backend keeps; the same contract tests run against all of them.

controller ── place ──▶ Placement (a GPU reserved in the registry) or Refusal
supervising task ── execute(job, sink) ──▶ Outcome
                       │ each batch of events goes to sink, which answers Directive
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Check:
    """One line of a check report; `ok` False means that a run could not start.

    `is_note`: it tells something on which no start depends.
    """

    name: str
    ok: bool
    message: str
    next_step: str = ""
    is_note: bool = False


@dataclass(frozen=True)
class CheckReport:
    """What `training check NAME` prints: `summary` is its first line, `facts` its --json body."""

    backend: str
    type: str
    summary: str
    checks: tuple[Check, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


@dataclass(frozen=True)
class Placement:
    """Where a run will execute: `gpu_uuids` () means the CPU; `slots` are the cards' slots for Ray.

    `device` is what the worker gets (cpu, cuda, cuda:0, mps), `step` one line for people,
    `warnings` go into the run's log, `host` is the machine where that is not this one.
    """

    backend: str
    device: str
    gpu_uuids: tuple[str, ...] = ()
    slots: tuple[int, ...] = ()
    step: str = ""
    warnings: tuple[str, ...] = ()
    host: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why a run cannot be placed now. `wait` True: try again when a reservation ends; False: fail it."""

    code: str
    message: str
    next_step: str
    wait: bool = False
    evidence: str = ""


@dataclass(frozen=True)
class Job:
    """One attempt of a run, ready to execute: its job folder holds spec.json and the bundle.

    `first_seq` is the number of worker events that the registry already holds, so that a run that is
    followed again sends only what is new.
    """

    run_id: str
    attempt: int
    folder: Path
    first_seq: int = 0


@dataclass(frozen=True)
class Directive:
    """The answer to a batch of events: go on, stop the worker (`cancel`), or let go (`stale`)."""

    cancel: bool = False
    grace_s: float = 20.0
    stale: bool = False


@dataclass(frozen=True)
class Outcome:
    """How the execution ended.

    `status` is one of
        success      the job folder holds the artifacts, `result` is the worker's result event
        error        the other fields say why
        cancelled    it was stopped on request
        interrupted  its process was gone, without an end, when somebody came to follow it again
        stale        the sink let go of it
        unstarted    as error, and no worker had started yet: somebody else may have the job

    `artifact_uri` names host and folder where model files stayed on another machine.
    """

    status: str
    error_code: str = ""
    message: str = ""
    evidence: str = ""
    next_step: str = ""
    result: Mapping[str, Any] = field(default_factory=dict)
    peak_rss_mb: float = 0.0
    artifact_uri: str = ""


class EventSink(Protocol):
    """Takes the next events of a run. `first_seq` is the number of the first one, counted from 0.

    Called at least once a second, with no events when there are none. `notes` are notices of the
    backend itself: {"kind": "step", "step": ...} or {"kind": "log", "level", "message"}; {"kind": "late",
    "step": ...}, a step line that lies over the run's own until {"kind": "heard", "message"}, of which the
    log gets the message; or {"kind": "ended", "error_code", "message", "evidence", "next_step"} when the
    run is over while its process is still being stopped; `peak_rss_mb`, in MiB, is there only where it is
    known by then.
    """

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive: ...


class Backend(Protocol):
    """A place where a run can execute."""

    name: str
    type: str

    def check(self) -> CheckReport:
        """Look, without changing anything, whether a run could start. Bounded in time."""
        ...

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        """Choose a place; `taken` are the GPU uuids that other runs hold on this backend.

        `uses_gpu` False: the trainer has no use for a GPU, so it gets none.
        """
        ...

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        """Run the job to its end, or follow it when it already runs. Leaves no process behind."""
        ...

    def alive(self, folder: Path) -> bool:
        """Whether a process of this job may still be alive (its GPU must stay reserved)."""
        ...
