"""The code that jobs bring along, by its sha256: fetched once, shared by all agents with one workdir.

WORKDIR/code/<sha256>/        a version: potato_ray/{__init__.py,job/,trainers/}
WORKDIR/code/<sha256>.lock    held, shared, while a job runs with it
WORKDIR/code/.lock            held while a version is fetched or removed
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Callable, Mapping

from potato_ray.agent.errors import ArchiveRefused
from potato_ray.agent.file_lock import FileLock
from potato_ray.agent.patience import Stop
from potato_ray.agent.unpack import UnpackLimits, unpack

KEPT = 3
"""Versions that no job uses and that are kept, the ones used last."""
WAIT_S = 900.0
"""For another agent that fetches a version."""
LIMITS = UnpackLimits(n_members=10_000, n_bytes=256 * 2**20)
_FILES = ".files.json"
_NEEDED = ("potato_ray/__init__.py", "potato_ray/job/start.py")
_DIGEST = re.compile(r"[0-9a-f]{64}")


class CodeInUse:
    """A version that is not removed until `release` (or the end of `with`); `root` holds potato_ray/."""

    def __init__(self, root: Path, lock: FileLock) -> None:
        self.root = root
        self._lock = lock

    def release(self) -> None:
        """Let it be removed when newer ones come."""
        self._lock.release()

    def __enter__(self) -> CodeInUse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class CodeStore:
    """All versions in one folder, which is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def use(self, sha256: str, fetch: Callable[[Path], None], stop: Stop | None = None) -> CodeInUse:
        """The version with this digest; `fetch` puts its archive where it is told, if it is not here.

        Raises ArchiveRefused (wrong_digest, bad_archive ...), AgentError (lock_held), Stopped, OSError, and
        what `fetch` raises.
        """
        if not _DIGEST.fullmatch(sha256):
            raise ValueError("a version is named by a sha256 in hex")
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with FileLock(self.folder / ".lock") as lock:
            lock.take(WAIT_S, stop)
            root = self.folder / sha256
            if not _is_whole(root):
                self._clear_up(sha256)
                self._bring(root, fetch, stop)
            used = FileLock(self.folder / f"{sha256}.lock", shared=True)
            used.take(WAIT_S, stop)
            os.utime(str(root))
            self._prune(sha256)
        return CodeInUse(root, used)

    def _bring(self, root: Path, fetch: Callable[[Path], None], stop: Stop | None) -> None:
        archive = self.folder / f".{root.name}.tar.gz"
        new = self.folder / f".new-{root.name}"
        fetch(archive)
        try:
            _check_digest(archive, root.name)
            unpack(archive, new, limits=LIMITS, stop=stop)
            _seal(new)
            new.rename(root)
        finally:
            shutil.rmtree(str(new), ignore_errors=True)
            archive.unlink()

    def _clear_up(self, sha256: str) -> None:
        """Remove what was begun and left, but for the beginning of the archive that is wanted now."""
        shutil.rmtree(str(self.folder / sha256), ignore_errors=True)
        for entry in list(self.folder.iterdir()):
            if not entry.name.startswith(".") or entry.name == ".lock" or entry.name.startswith(f".{sha256}"):
                continue
            _remove(entry)

    def _prune(self, present: str) -> None:
        versions = [entry for entry in self.folder.iterdir() if _DIGEST.fullmatch(entry.name)]
        others = sorted((entry for entry in versions if entry.name != present), key=_used_at, reverse=True)
        n_kept = 0
        for version in others:
            with FileLock(self.folder / f"{version.name}.lock") as lock:
                if not lock.try_to_take():
                    continue
                n_kept += 1
                if n_kept > KEPT:
                    shutil.rmtree(str(version), ignore_errors=True)
                    _remove(lock.path)


def _is_whole(root: Path) -> bool:
    """Whether all its files are there; some systems clear caches file by file."""
    try:
        sizes: Any = json.loads((root / _FILES).read_text("utf-8"))
        return isinstance(sizes, Mapping) and all(
            (root / name).stat().st_size == size for name, size in sizes.items()
        )
    except (OSError, ValueError):
        return False


def _seal(root: Path) -> None:
    """Note which files there are. Raises ArchiveRefused when it is no code of ours."""
    missing = [name for name in _NEEDED if not (root / name).is_file()]
    if missing:
        raise ArchiveRefused(
            "The code that came with the job cannot be used.",
            code="bad_archive",
            evidence=f"It has no {missing[0]}.",
            next_step="Look whether agent and server are of the same version.",
        )
    sizes = {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    (root / _FILES).write_text(json.dumps(sizes), "utf-8")


def _check_digest(archive: Path, sha256: str) -> None:
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != sha256:
        raise ArchiveRefused(
            "The code that came with the job is damaged: its sha256 is not the announced one.",
            code="wrong_digest",
            evidence=f"It is {found}.",
            next_step="Start the run again.",
        )


def _used_at(version: Path) -> float:
    return version.stat().st_mtime


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path), ignore_errors=True)
    else:
        path.unlink()
