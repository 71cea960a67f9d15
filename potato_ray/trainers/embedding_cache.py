"""Embeddings of texts, kept from run to run: a retrain computes those of new texts only.

One SQLite file for each model and way of embedding, in a folder that is its owner's alone. A text is known
by its SHA-256 digest, so that no text lies there. Whatever is wrong with the cache (a full disk, a file
system without locks, a file that is torn) costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import os
import stat
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

sqlite3: Any
try:
    import sqlite3
except ImportError:  # a Python that was built without it
    sqlite3 = None

MOST_BYTES = 2 << 30
"""Of all files together: those that were not used for longest are deleted for it."""
_BUSY_S = 5.0
_AT_ONCE = 500
_SCHEMA = "CREATE TABLE IF NOT EXISTS embeddings (text BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
_CHECK_BYTES = 4
_FAILURES = (OSError,) if sqlite3 is None else (OSError, sqlite3.Error)


def cache_folder() -> Path | None:
    """This user's own, below POTATO_MODEL_CACHE or XDG's cache folder; None where there is no home either."""
    given = os.environ.get("POTATO_MODEL_CACHE")
    try:
        if given:  # several users may share it
            return Path(given).expanduser() / f"potato_ray-embeddings-{os.getuid()}"
        common = os.environ.get("XDG_CACHE_HOME")
        return (Path(common) if common else Path.home() / ".cache") / "potato_ray" / "embeddings"
    except RuntimeError:
        return None


class EmbeddingCache:
    """Of one model; `model` is all that its embeddings depend on. Vectors are float32.

    `trouble` says in words why nothing could be kept; "" as long as all is well.
    """

    def __init__(self, folder: Path | None, model: str) -> None:
        self.path: Path | None = None
        self.trouble = ""
        if sqlite3 is None:
            self.trouble = "this Python has no sqlite3"
        elif folder is None:
            self.trouble = "there is no home folder"
        else:
            self.path = folder / f"{hashlib.sha256(model.encode('utf-8')).hexdigest()[:32]}.sqlite"

    def known(self, texts: Sequence[str]) -> dict[str, Any]:
        """The vectors of those texts that are there."""
        if self.path is None:
            return {}
        by_digest = {_digest(text): text for text in texts}
        try:
            if not self.path.exists():
                return {}
            with closing(self._open(self.path)) as connection:
                found = {
                    by_digest[digest]: _unpacked(body) for digest, body in _rows(connection, [*by_digest])
                }
        except _FAILURES as failure:
            self._give_way(failure)
            return {}
        _touch(self.path)
        return {text: vector for text, vector in found.items() if vector is not None}

    def keep(self, vectors: Mapping[str, Any]) -> None:
        """Add vectors by their texts; does nothing any more once it has failed."""
        if self.trouble or self.path is None:
            return
        rows = [(_digest(text), _packed(vector)) for text, vector in vectors.items()]
        try:
            _make_own(self.path.parent)
            _make_room(self.path.parent, sum(len(body) for _, body in rows))
            with closing(self._open(self.path)) as connection, connection:
                connection.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)
        except _FAILURES as failure:
            self.trouble = str(failure)
            self._give_way(failure)

    def _open(self, path: Path) -> sqlite3.Connection:
        _check_own(path.parent)
        connection = sqlite3.connect(str(path), timeout=_BUSY_S)
        try:
            connection.execute(_SCHEMA)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _give_way(self, failure: Exception) -> None:
        """A torn file makes room for a new one; a busy or full one (OperationalError) is left as it is."""
        torn = isinstance(failure, sqlite3.DatabaseError) and not isinstance(
            failure, sqlite3.OperationalError
        )
        if torn and self.path is not None:
            _delete(self.path)


def _make_own(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(0o700, exist_ok=True)


def _check_own(folder: Path) -> None:
    """Raises OSError where somebody else could read or change what lies in `folder`."""
    status = folder.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise PermissionError(f"{folder} is not this user's alone (mode 0700 is expected)")


def _make_room(folder: Path, more: int) -> None:
    """Delete files that were not used for longest until there is room for `more` bytes."""
    files = []
    for path in folder.glob("*.sqlite"):
        try:
            files.append((path, path.stat()))
        except FileNotFoundError:
            pass  # another run has deleted it
    total = sum(status.st_size for _, status in files) + more
    for path, status in sorted(files, key=lambda each: each[1].st_mtime):
        if total <= MOST_BYTES:
            return
        _delete(path)
        total -= status.st_size


def _touch(path: Path) -> None:
    try:
        os.utime(path)
    except OSError:
        pass  # on a disk that is read only nothing is deleted either


def _delete(path: Path) -> None:
    for each in (path, path.with_name(path.name + "-journal")):
        try:
            each.unlink()
        except OSError:
            pass  # another run has deleted it


def _rows(connection: sqlite3.Connection, digests: Sequence[bytes]) -> Iterator[tuple[bytes, bytes]]:
    for start in range(0, len(digests), _AT_ONCE):
        some = digests[start : start + _AT_ONCE]
        marks = ", ".join("?" * len(some))
        yield from connection.execute(f"SELECT text, vector FROM embeddings WHERE text IN ({marks})", some)  # noqa: S608 - marks only


def _packed(vector: Any) -> bytes:
    import numpy as np

    body: bytes = np.asarray(vector, dtype="<f4").tobytes()
    return body + zlib.crc32(body).to_bytes(_CHECK_BYTES, "little")


def _unpacked(packed: bytes) -> Any:
    """The vector, or None for bytes that are not what was kept."""
    import numpy as np

    body, check = packed[:-_CHECK_BYTES], packed[-_CHECK_BYTES:]
    if zlib.crc32(body).to_bytes(_CHECK_BYTES, "little") != check:
        return None
    return np.frombuffer(body, dtype="<f4")


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
