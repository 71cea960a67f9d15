"""A run whose files stay on a host: its folder there, its note here, and nothing that ever trained."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from run_history import folder_of, succeed
from sshd import ALIAS

from potato_ray.backends.host_files import HostFile
from potato_ray.backends.left_on_host import LeftOnHost
from potato_ray.backends.remote_note import RemoteNote, write_note
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.errors import PotatoRayError
from potato_ray.registry.runs import NewRun, Run
from potato_ray.ssh import Destination

MODEL = os.urandom(1 << 16) * 48 + b"the end"
"""More than what is asked for ahead is not needed: 3 MiB, in blocks of 32 KiB."""
FILES: Mapping[str, bytes] = {
    "model.bin": MODEL,
    "model_card.json": b"{}",
    "predictions.jsonl": b"{}\n",
    "sub/für alle #1.bin": b"12345",
    "sub/empty.bin": b"",
}
FETCHABLE = sorted(set(FILES) - {"predictions.jsonl"})


def note_of(remote_dir: Path, host: str = ALIAS, **more: Any) -> RemoteNote:
    return RemoteNote(host, 1, str(remote_dir), "c", "python3", "s", cleared=True, **more)


def leave_files(
    run_id: str, run_folder: Path, remote_dir: Path, files: Mapping[str, bytes] = FILES, host: str = ALIAS
) -> Path:
    """Leave files in the artifacts folder of a run on a host that is this machine; that folder."""
    artifacts = remote_dir / "runs" / f"{run_id}.1" / "jobs" / f"{run_id}.1" / "artifacts"
    for name, body in files.items():
        (artifacts / name).parent.mkdir(parents=True, exist_ok=True)
        (artifacts / name).write_bytes(body)
    run_folder.mkdir(parents=True, exist_ok=True)
    write_note(run_folder, note_of(remote_dir, host))
    return artifacts


def left_by(run_id: str, run_folder: Path, remote_dir: Path) -> LeftOnHost:
    """What is known of it here."""
    return LeftOnHost(run_id, SshSettings(Destination(ALIAS)), note_of(remote_dir), run_folder)


class FakeHost:
    """Files on a host that nobody logs in to, for `RemoteFiles(host)`: they come when they are let."""

    def __init__(self, files: Mapping[str, int]) -> None:
        self.files = dict(files)
        self.trouble: PotatoRayError | None = None
        self.failures: list[PotatoRayError] = []
        """What the next fetches meet."""
        self.go = threading.Event()
        self.halfway = threading.Event()
        self.logins = 0

    def __call__(self, left: LeftOnHost) -> Any:
        return _FakeHostFiles(self, left)


class _FakeHostFiles:
    def __init__(self, host: FakeHost, left: LeftOnHost) -> None:
        self._host, self._left = host, left
        host.logins += 1

    def __enter__(self) -> _FakeHostFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        pass

    def listing(self) -> list[HostFile]:
        if self._host.trouble is not None:
            raise self._host.trouble
        return [HostFile(path, size, is_here=False) for path, size in sorted(self._host.files.items())]

    def fetch(self, path: str, told: Any) -> None:
        size = self._host.files[path]
        told(size // 2, size)
        if self._host.failures:
            raise self._host.failures.pop(0)
        self._host.halfway.set()
        while not self._host.go.wait(0.01):
            told(size // 2, size)
        target = self._left.home / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(size))

    def remove(self) -> None:
        if self._host.trouble is not None:
            raise self._host.trouble
        write_note(self._left.run_folder, replace(self._left.note, files_removed=True))


def left_run(served: Any, backend: str = "gpu", host: str = ALIAS) -> Run:
    """A run of a served project that ended well on a backend, with files that stay on its host."""
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",), {"min_instances": 5}, backend)
    run = succeed(served, new=new)
    folder = folder_of(served, run.run_id)
    write_note(folder, note_of(Path("/home/ada/.cache/potato-training"), host))
    uri = f"{host}:/home/ada/.cache/potato-training/runs/{run.run_id}.1/jobs/{run.run_id}.1/artifacts"
    places = {
        "artifact_uri": uri,
        "artifact_dir": str((folder / "artifacts").relative_to(served.config.task_dir)),
    }
    served.controller.write(served.controller.registry.update, run.run_id, 1, **places)
    return served.reader.run(run.run_id)
