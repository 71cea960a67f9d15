"""What a run has left on a host, and how that is reached: known without asking the host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.backends.remote_note import RemoteNote, read_note
from potato_ray.errors import Conflict
from potato_ray.host.run_folder import RunFolder
from potato_ray.job.folder import JobFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from potato_ray.backends.host_settings import HostSettings
    from potato_ray.config.models import ProjectConfig


@dataclass(frozen=True)
class LeftOnHost:
    """A run's folders: `folder` and its `artifacts` on the host (POSIX paths), `home` is `artifacts` here."""

    run_id: str
    settings: HostSettings
    note: RemoteNote
    run_folder: Path

    @property
    def host(self) -> str:
        return self.settings.host

    @property
    def home(self) -> Path:
        return JobFolder(self.run_folder).artifacts

    @property
    def folder(self) -> str:
        return self._there.path.as_posix()

    @property
    def artifacts(self) -> str:
        return self._there.job.artifacts.as_posix()

    @property
    def _there(self) -> RunFolder:
        return RunFolder(Path(self.note.remote_dir), self.run_id, self.note.attempt)


def files_stay(run: Run, note: RemoteNote) -> bool:
    """Whether model files of a run are still on its host, as far as is known here."""
    if note.files_removed or (note.outcome is not None and not note.keep):
        return False
    # What keep_remote keeps may be here as well.
    return bool(run.artifact_uri) or (note.keep and run.state is State.SUCCESS)


def are_gone(run: Run, run_folder: Path | None) -> bool:
    """Whether files that a run left on a host are known not to be there any more."""
    note = read_note(run_folder) if run_folder is not None else None
    return note is not None and not files_stay(run, note)


def left_on_host(config: ProjectConfig, run: Run, run_folder: Path | None) -> LeftOnHost:
    """What a run left on a host that is logged in to. Raises Conflict (no_remote_files, host_changed)."""
    note = read_note(run_folder) if run_folder is not None else None
    if not run.ended:
        raise _nothing(f"Run {run.run_id} has not ended.", "Wait for its end: then its files are copied.")
    if note is not None and note.files_removed:
        raise _nothing(
            f"The files of run {run.run_id} were removed from {note.host}.",
            f"Those that were fetched before are in {_artifacts(run_folder)}; else start the run again.",
        )
    if note is None or run_folder is None or not files_stay(run, note):
        raise _nothing(
            f"No files of run {run.run_id} stay on a host that the server logs in to.",
            f"Those that are here are in {_artifacts(run_folder)}; an agent's stay on its machine.",
        )
    settings = _settings(config, run, note)
    return LeftOnHost(run.run_id, settings, note, run_folder)


def _artifacts(run_folder: Path | None) -> str:
    return str(run_folder / "artifacts") if run_folder is not None else "its artifacts"


def _settings(config: ProjectConfig, run: Run, note: RemoteNote) -> HostSettings:
    # Imported where there is one: what it needs is loaded by nobody else.
    from potato_ray.backends.host_settings import HostSettings, host_keys
    from potato_ray.config.backends import SlurmBackend, SshBackend

    configured = config.model_training.backends.get(run.backend)
    if isinstance(configured, SshBackend | SlurmBackend):
        settings = HostSettings(**host_keys(configured, run.backend, config.path.parent))
        if settings.host == note.host:
            return settings
    raise Conflict(
        f"The backend {run.backend} does not lead to {note.host} any more.",
        code="host_changed",
        evidence=f"Files of run {run.run_id} stay on {note.host}.",
        next_step=f"Give a backend of that name the host {note.host} again, or copy them by hand.",
    )


def _nothing(message: str, next_step: str) -> Conflict:
    return Conflict(message, code="no_remote_files", next_step=next_step)
