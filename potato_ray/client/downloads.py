"""Files of a run brought home: whole or not at all, and never outside the folder that was named."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from potato_ray.client import calls
from potato_ray.client.answers import Answer, not_ours
from potato_ray.client.effects import Flow, do, read
from potato_ray.client.failures import NotFound, ServerUnavailable, UnsafePath
from potato_ray.client.flows import several
from potato_ray.client.patience import Patience
from potato_ray.client.records import Artifact

REQUESTS_A_FILE = 5
"""In a row that bring nothing new; the first of them may have brought something."""
_STRANGE = re.compile(r"[\x00-\x1f\x7f\\]")


def download(
    run_id: str, wanted: str | Iterable[str] | None, folder: str | os.PathLike[str], patience: Patience
) -> Flow[list[Path]]:
    """Fetch files of a run into `folder`; the paths that they have there, in the order of the list.

    `wanted` is a path as the list names it, a folder in it, or several of them; None: all files.
    """
    listed = yield from several(Artifact, calls.artifacts(run_id), "artifacts", patience)
    names = chosen_paths(run_id, [each.path for each in listed], wanted, "artifacts()")
    sizes = {each.path: each.bytes for each in listed}
    root = Path(folder)
    targets = [(name, destination(root, name)) for name in names]
    for name, path in targets:
        yield from _Download(run_id, name, path, patience, sizes[name]).fetch()
    return [path for _, path in targets]


def chosen_paths(
    run_id: str, listed: list[str], wanted: str | Iterable[str] | None, source: str
) -> list[str]:
    """Those of the listed paths that are wanted: one, a folder of them, several, or None for all.

    `source` is where they are listed, for who names another one. Raises NotFound.
    """
    if wanted is None:
        return listed
    chosen: list[str] = []
    has = ", ".join(listed[:20]) + (" and more" if len(listed) > 20 else "")
    for name in [wanted] if isinstance(wanted, str) else list(wanted):
        below = name.rstrip("/") + "/"
        found = [path for path in listed if path == name or path.startswith(below)]
        if not found:
            raise NotFound(
                f"Run {run_id} has no file {name}.",
                code="unknown_artifact",
                evidence=f"It has {has or 'none'}.",
                next_step=f"Name one of its {source}.",
            )
        chosen += found
    return list(dict.fromkeys(chosen))


def destination(root: Path, name: str) -> Path:
    """Where the file `name` of a run comes to lie below `root`; raises UnsafePath when it leads out."""
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or _STRANGE.search(name) or Path(name).drive:
        raise _unsafe(name, "The name leads out of a folder, or has characters that file names lack.")
    path = root.joinpath(*parts)
    # A link that lies in the folder already could lead elsewhere.
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise _unsafe(name, f"{path.parent} leads to {path.parent.resolve()}.")
    return path


def _unsafe(name: str, evidence: str) -> UnsafePath:
    return UnsafePath(
        f"The file {name!r} would be written outside the folder."[:300],
        evidence=evidence,
        next_step="Do not trust this server, or download into an empty folder.",
    )


@dataclass
class _Download:
    """One file: into a .part file beside it, which gets its name when it is complete.

    `size` is in bytes, as it was listed; an answer that tells its own counts more, as a file may change.
    """

    run_id: str
    name: str
    path: Path
    patience: Patience
    size: int | None
    etag: str = ""
    received: int = 0

    def fetch(self) -> Flow[None]:
        part = self.path.with_name(f".{secrets.token_hex(6)}.part")
        yield from do(lambda: self.path.parent.mkdir(parents=True, exist_ok=True))
        try:
            with part.open("xb") as file:
                yield from self._fill(file)
            yield from do(lambda: part.replace(self.path))
        finally:
            part.unlink(missing_ok=True)

    def _fill(self, file: BinaryIO) -> Flow[None]:
        """Write the file, going on where the connection broke off as long as that brings it forward."""
        left, most = REQUESTS_A_FILE, 0
        while True:
            try:
                yield from self._take(file)
                return
            except ServerUnavailable:
                if self.received > most:
                    left, most = REQUESTS_A_FILE, self.received
                left -= 1
                if not left:
                    raise

    def _take(self, file: BinaryIO) -> Flow[None]:
        goes_on = bool(self.etag and self.received)
        asked = {"Range": f"bytes={self.received}-", "If-Range": self.etag} if goes_on else {}
        answer = yield from self.patience.insist_open(calls.artifact(self.run_id, self.name, asked))
        if answer.status != 206:
            self.received = file.seek(0)
            file.truncate()
        elif not answer.headers.get("content-range", "").startswith(f"bytes {self.received}-"):
            raise not_ours(answer, f"the part from byte {self.received} on")
        self.etag = _strong(answer)
        size = _told_size(answer)
        while (piece := (yield from read())) is not None:
            yield from do(partial(file.write, piece))
            self.received += len(piece)
        self._check(self.size if size is None else size)

    def _check(self, size: int | None) -> None:
        """Raises ServerUnavailable for an answer that ended early and did not say so."""
        if isinstance(size, int) and self.received < size:
            raise ServerUnavailable(
                f"The file {self.name} came only in part.",
                code="connection_lost",
                evidence=f"{self.received} of its {size} bytes have come.",
                next_step="Try again.",
            )


def _told_size(answer: Answer) -> int | None:
    """The size of the whole file, in bytes, where an answer tells it."""
    if answer.status == 206:
        told = answer.headers.get("content-range", "").rpartition("/")[2]
    elif answer.headers.get("content-encoding", "identity") == "identity":
        told = answer.headers.get("content-length", "")
    else:
        told = ""  # that would be the size on its way
    return int(told) if told.isascii() and told.isdigit() and len(told) < 20 else None


def _strong(answer: Answer) -> str:
    """The ETag that a part may be asked for by; "" when there is none."""
    etag = answer.headers.get("etag", "")
    return "" if etag.startswith("W/") else etag
