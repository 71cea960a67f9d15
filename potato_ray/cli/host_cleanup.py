"""Cancelling a run on a host while nobody is at work: the command itself logs in and clears up there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NoReturn

from potato_ray.agent_place import place_of
from potato_ray.backends.base import Directive, Job, Outcome
from potato_ray.backends.grants import Means, starts_agents
from potato_ray.backends.remote_note import RemoteNote, read_note, write_note
from potato_ray.cli.output import say
from potato_ray.errors import ProjectUnwritable, RunFailed
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from pathlib import Path

    from potato_ray.backends.host_backend import HostBackend
    from potato_ray.config.models import ProjectConfig
    from potato_ray.registry.runs import Run
    from potato_ray.registry.store import Registry


def leave_host(config: ProjectConfig, registry: Registry, run: Run, note: RemoteNote) -> bool:
    """End what a cancelled run has on its host, and bring home what it saved; whether nothing goes on there.

    `note` is what is known of it there. What could not be cleared up is said, and noted for the next run on
    that host. Raises ProjectUnwritable.
    """
    if note.cleared:
        return True
    folder = config.training_dir / "runs" / run.run_id
    backend = _backend_of(config, run, note)
    if backend is None:
        _note_end(folder, note)
        say(f"backend {run.backend} does not lead to {note.host} any more. {_what_stays(folder, note)}")
        return False
    job = Job(run.run_id, note.attempt, folder, first_seq=run.last_seq)
    failure = backend.cancel(job, _Telling(registry, run, float(config.model_training.grace_seconds)))
    after = read_note(folder)
    if after is not None and after.cleared:
        stays = f"; its folder stays: {note.remote_dir}/runs/{job.run_id}.{job.attempt}" if after.keep else ""
        say(f"cleared up on {note.host}{stays}")
        return True
    if after is None or after.outcome is None:
        _note_end(folder, note)
    why = f"{failure.message}. " if failure is not None else ""
    say(f"{why}{_what_stays(folder, note)}")
    return False


class _Telling:
    """The sink of a run that is being cleared up behind: its end is recorded, its steps are said."""

    def __init__(self, registry: Registry, run: Run, grace_s: float) -> None:
        self._registry = registry
        self._run = run
        self._directive = Directive(cancel=True, grace_s=grace_s)
        self._step = ""

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        for note in notes:
            if note["kind"] == "ended":
                self._end()
            elif note["kind"] == "step":
                self._say_step(str(note["step"]))
            elif note["kind"] == "log":
                say(str(note["message"]))
                self._registry.record_note(self._run.run_id, self._run.attempt, {"event": "log", **note})
        return self._directive

    def _end(self) -> None:
        run = self._registry.run(self._run.run_id)
        if not run.ended:
            self._registry.transition(run.run_id, run.attempt, State.CANCELLED)

    def _say_step(self, step: str) -> None:
        """Say it, but for how far a copy is: that would be a line for each half second."""
        what = step.partition(",")[0]
        if what != self._step:
            self._step = what
            say(what)


def _backend_of(config: ProjectConfig, run: Run, note: RemoteNote) -> HostBackend[Any] | None:
    """The run's backend, if that still leads to the host where the run is."""
    if not starts_agents(config, run.backend):
        return None
    # Imported where there is one: what it needs is loaded by nobody else.
    from potato_ray.backends.host_backend import HostBackend
    from potato_ray.backends.making import make_backend

    means = Means(_grants_nothing, place_of(config.state_dir), config.state_dir)
    backend = make_backend(run.backend, config, means=means)
    if isinstance(backend, HostBackend) and backend.settings.host == note.host:
        return backend
    return None


def _grants_nothing(run_id: str, attempt: int) -> NoReturn:
    raise RunFailed("A run that was cancelled gets no agent.", code="backend_failed")


def _note_end(folder: Path, note: RemoteNote) -> None:
    """Let the next run on that host know that this one is over."""
    try:
        write_note(folder, replace(note, outcome=asdict(Outcome("cancelled"))))
    except OSError as failure:
        raise ProjectUnwritable.because(failure, "The run's folder") from failure


def _what_stays(folder: Path, note: RemoteNote) -> str:
    """What may go on over there, and until when."""
    from potato_ray.backends.agent import gone_after_s
    from potato_ray.mirror.folder import MirrorFolder

    within_s = gone_after_s(MirrorFolder(folder))
    return (
        f"The run may go on on {note.host} for up to {within_s:.0f} s, until the agent there has been "
        "without a server for too long; a model that was finished before waits there for a day. The next run "
        f"of this project on {note.host} ends and removes what is left."
    )
