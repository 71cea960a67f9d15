"""A kept look at the registry: says for a few microseconds whether anything was committed since."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

from potato_ray.registry import journal, schema, snapshot
from potato_ray.registry.connection import BUSY_TIMEOUT_S, open_reader
from potato_ray.registry.journal import Entry
from potato_ray.registry.snapshot import Snapshot

_NOT_LOOKED = (-1, -1)


@dataclass(frozen=True)
class Look:
    """What a look saw, all of one moment: the snapshot, and the entries of the journal up to `upto`.

    `upto` is None where there is no registry. `more`: there are entries behind `upto`, for the next look.
    """

    upto: int | None = None
    entries: tuple[Entry, ...] = ()
    snapshot: Snapshot = field(default_factory=Snapshot)
    more: bool = False


class RegistryWatch:
    """Watches `path`; the file may come, go and be replaced. To be used on one thread.

    Raises ProjectUnreadable, sqlite3.Error; after either, the next call opens the file afresh.
    """

    def __init__(self, path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = _NOT_LOOKED
        self._version: int | None = None

    def changed(self) -> bool:
        """Whether anything may have been committed since the last call; True on the first one.

        To be called before `look`, so that what is committed in between is noticed the next time.
        """
        identity = _identity(self.path)
        if identity != self._identity:
            self.close()
            self._connection = open_reader(self.path, self._busy_timeout_s)
            self._identity, self._version = identity, self._data_version()
            return True
        before, self._version = self._version, self._data_version()
        return self._version != before

    def look(self, after: int | None, limit: int) -> Look:
        """See what is there, and at most `limit` entries after a number; None: no entries, begin at now.

        `upto` is lower than `after` when an older file took the place of the one that was watched.
        """
        connection = self._connection
        if connection is None:
            return Look()
        try:
            connection.execute("BEGIN")
            try:
                return _look(connection, after, limit) if schema.version(connection) else Look()
            finally:
                connection.execute("COMMIT")
        except sqlite3.Error:
            self.close()
            raise

    def close(self) -> None:
        """Let the file go; a later call opens it again."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._identity, self._version = None, _NOT_LOOKED, None

    def _data_version(self) -> int | None:
        if self._connection is None:
            return None
        try:
            return int(self._connection.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error:
            self.close()
            raise


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever is written into it; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _look(connection: sqlite3.Connection, after: int | None, limit: int) -> Look:
    newest = journal.newest(connection)
    seen = snapshot.take(connection)
    if after is None or after >= newest:
        return Look(newest, (), seen)
    part = journal.read(connection, after, newest, limit)
    return Look(part.upto, part.entries, seen, more=part.upto < newest)
