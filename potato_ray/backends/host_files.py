"""The model files that a run has left on its host: listed, fetched one by one over SFTP, removed.

The host is not trusted: nothing is written outside the run's artifacts, however its names are made. A file
grows as a *.part and gets its name when it is whole, so a fetch that broke off goes on where it was.
"""

from __future__ import annotations

import posixpath
import shlex
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from potato_ray.agent.member_names import shown, usable_path
from potato_ray.backends.artifact_copy import PARTS, PREDICTIONS, CopyFailed
from potato_ray.backends.artifact_target import target_in
from potato_ray.backends.growing_file import GrowingFile
from potato_ray.backends.left_on_host import LeftOnHost
from potato_ray.backends.remote_note import read_note, write_note
from potato_ray.backends.sftp_reading import read_ahead
from potato_ray.errors import Conflict, NotFound, ProjectUnwritable
from potato_ray.ssh import Connection, Destination, SshFailed

MOST_FILES: Final = 5000
MOST_ENTRIES: Final = 100_000
"""That are looked at for them, folders included."""
STALL_S: Final = 60.0
REMOVE_S: Final = 120.0
OVERLAP_BYTES: Final = 1 << 20
"""So much of what is here of a file is compared with the host's before the fetch goes on behind it."""
_NEXT_STEP: Final = "Try again: it goes on where it was."

Told = Callable[[int, int], None]
"""Hears of the bytes of a file that are here and its bytes in all, often. What it raises ends the fetch."""
Login = Callable[[Destination], Connection]


@dataclass(frozen=True)
class HostFile:
    """A file on the host; `path` is within the artifacts. `is_here`: the run has one of that size here."""

    path: str
    n_bytes: int
    is_here: bool


def is_here(home: Path, path: str, n_bytes: int) -> bool:
    """Whether the run's own artifacts hold a file of that path and size."""
    try:
        details = target_in(home, path).lstat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(details.st_mode) and details.st_size == n_bytes


def _is_usable(path: str) -> bool:
    """Whether a file of the host can have this path here."""
    try:
        usable = usable_path(path)
    except ValueError:
        return False
    return usable == path.encode("utf-8") != b"" and path.split("/")[0] not in (PARTS, PREDICTIONS)


def _unheard(here: int, of_bytes: int) -> None:
    """Nobody wants to know."""


class HostFiles:
    """One login, made when something is asked for; one thread at a time. Closed by `close` or a `with` block.

    Everything raises SshFailed where the host cannot be reached, and CopyFailed where the way to it breaks.
    """

    def __init__(self, left: LeftOnHost, login: Login = Connection.open, *, stall_s: float = STALL_S) -> None:
        self._left = left
        self._login = login
        self._stall_s = stall_s
        self._connection: Connection | None = None
        self._sftp: Any = None

    def __enter__(self) -> HostFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Log out. The next question logs in again."""
        if self._sftp is not None:
            with suppress(Exception):  # it may have broken off already
                self._sftp.close()
        if self._connection is not None:
            self._connection.close()
        self._sftp = self._connection = None

    # --- looking ------------------------------------------------------------------------------------

    def listing(self) -> list[HostFile]:
        """The plain files, by path, 5000 at most; links and what cannot be a file here are left out.

        Raises NotFound (remote_files_gone).
        """
        found: list[HostFile] = []
        with self._answers() as sftp:
            for path, n_bytes in self._files(sftp):
                found.append(HostFile(path, n_bytes, is_here(self._left.home, path, n_bytes)))
                if len(found) == MOST_FILES:
                    break
        return sorted(found, key=lambda each: each.path)

    def _files(self, sftp: Any) -> Iterator[tuple[str, int]]:
        folders, n_entries = [""], 0
        while folders and n_entries < MOST_ENTRIES:
            folder = folders.pop()
            for entry in self._entries(sftp, folder):
                n_entries += 1
                path = posixpath.join(folder, str(entry.filename))
                mode = entry.st_mode or 0
                if not _is_usable(path):
                    continue
                if stat.S_ISDIR(mode):
                    folders.append(path)
                elif stat.S_ISREG(mode):
                    yield path, int(entry.st_size or 0)

    def _entries(self, sftp: Any, folder: str) -> list[Any]:
        try:
            return list(sftp.listdir_attr(posixpath.join(self._left.artifacts, folder)))
        except FileNotFoundError:
            if folder:
                return []  # removed meanwhile
            raise NotFound(
                f"There are no files of run {self._left.run_id} on {self._left.host} any more.",
                code="remote_files_gone",
                evidence=f"There is no folder {self._left.artifacts}.",
                next_step="Start the run again if you need its model.",
            ) from None

    # --- fetching -----------------------------------------------------------------------------------

    def fetch(self, path: str, told: Told = _unheard) -> Path:
        """Bring one file home, going on with what is here of it; where it is then.

        Raises NotFound (unknown_artifact), Conflict (fetch_under_way) and ProjectUnwritable.
        """
        target = self._target(path)
        with self._answers() as sftp, sftp.open(self._there(sftp, path), "rb") as there:
            n_bytes = self._size(there, path)
            with GrowingFile(self._left.home, path) as here:
                here.cut(self._kept(here, sftp, there, n_bytes))
                here.check_space(n_bytes - here.n_bytes)
                self._fill(here, sftp, there, n_bytes, told)
                self._check_size(path, n_bytes, self._size(there, path), here)
                here.become(target)
        return target

    def _target(self, path: str) -> Path:
        if not _is_usable(path):
            raise self._unknown(path)
        try:
            return target_in(self._left.home, path)
        except ValueError as failure:
            raise self._refused(str(failure)) from None

    def _there(self, sftp: Any, path: str) -> str:
        """The file's own place on the host. A link on the way to it is not followed."""
        whole = posixpath.join(self._left.artifacts, path)
        try:
            if stat.S_ISREG(sftp.lstat(whole).st_mode or 0):
                root, real = sftp.normalize(self._left.artifacts), sftp.normalize(whole)
                if real == posixpath.join(root, path):
                    return whole
        except FileNotFoundError:
            pass
        raise self._unknown(path)

    def _size(self, there: Any, path: str) -> int:
        details = there.stat()
        if not stat.S_ISREG(details.st_mode or 0):
            raise self._unknown(path)
        return int(details.st_size or 0)

    @staticmethod
    def _kept(here: GrowingFile, sftp: Any, there: Any, n_bytes: int) -> int:
        """How much of what is here is gone on with: all or nothing, by its last bytes."""
        end = here.n_bytes
        if not 0 < end <= n_bytes:
            return 0
        begin = max(0, end - OVERLAP_BYTES)
        theirs = b"".join(read_ahead(sftp, there.handle, begin, end))
        return end if theirs == here.read(begin, end) else 0

    @staticmethod
    def _fill(here: GrowingFile, sftp: Any, there: Any, n_bytes: int, told: Told) -> None:
        done = here.n_bytes
        told(done, n_bytes)
        for block in read_ahead(sftp, there.handle, done, n_bytes):
            here.write(block)
            done += len(block)
            told(done, n_bytes)

    def _check_size(self, path: str, before: int, after: int, here: GrowingFile) -> None:
        if before == after == here.n_bytes:
            return
        came = here.n_bytes
        here.cut(0)
        what = f"brought {shown(path)} with another size than announced"
        raise self._failed("copy_damaged", what, f"{came} of {before} bytes came; it has {after} now.")

    # --- removing -----------------------------------------------------------------------------------

    def remove(self) -> None:
        """Remove all that the run has left on the host, and note that. Raises ProjectUnwritable, too."""
        try:
            answer = self._connected().run(f"rm -rf -- {shlex.quote(self._left.folder)}", timeout_s=REMOVE_S)
        except SshFailed:
            self.close()
            raise
        if answer.code:
            raise CopyFailed(
                f"The files of run {self._left.run_id} could not be removed from {self._left.host}.",
                code="remote_files_stay",
                evidence=answer.err.strip()[-500:],
                next_step=f"Remove {self._left.folder} there by hand.",
            )
        try:
            note = read_note(self._left.run_folder) or self._left.note
            write_note(self._left.run_folder, replace(note, files_removed=True))
        except OSError as failure:
            raise ProjectUnwritable.because(failure, "The run's folder") from failure

    # --- the connection -----------------------------------------------------------------------------

    @contextmanager
    def _answers(self) -> Iterator[Any]:
        """The SFTP session. What breaks it ends the login, too: answers to old requests may still come."""
        import paramiko  # type: ignore[import-untyped]

        try:
            if self._sftp is None:
                self._sftp = self._connected().sftp(stall_s=self._stall_s)
            yield self._sftp
        except TimeoutError:
            self.close()
            raise self._failed("copy_stalled", f"sent nothing for {self._stall_s:.0f} s") from None
        except (EOFError, OSError, paramiko.SSHException, UnicodeDecodeError) as failure:
            lost = self._connection.lost() if self._connection is not None else None
            self.close()
            words = str(lost or failure) or type(failure).__name__
            raise self._failed("copy_broke_off", "broke off", words) from failure
        except (NotFound, Conflict):
            raise  # the session is as it was
        except BaseException:
            self.close()
            raise

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._login(self._left.settings.destination)
        return self._connection

    # --- what went wrong ----------------------------------------------------------------------------

    def _unknown(self, path: str) -> NotFound:
        return NotFound(
            f"Run {self._left.run_id} has no file {shown(path)} on {self._left.host}.",
            code="unknown_artifact",
            next_step="List what is there: potato-ray training fetch --list.",
        )

    def _refused(self, why: str) -> CopyFailed:
        return self._failed("copy_refused", f"was refused: {why}")

    def _failed(self, code: str, what: str, evidence: str = "", next_step: str = _NEXT_STEP) -> CopyFailed:
        message = f"The copy from {self._left.host} {what}"
        return CopyFailed(message, code=code, evidence=evidence, next_step=next_step)
