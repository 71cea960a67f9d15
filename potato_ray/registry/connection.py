"""Connections to project.sqlite: one that writes, many that only read, and the transaction between.

The file may be shared with a running Potato server, so a lock is waited for and never held for more
than one short transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potato_ray.errors import Conflict, PotatoRayError, ProjectUnreadable, ProjectUnwritable

BUSY_TIMEOUT_S = 15.0

CHUNK = 1000
"""The most rows that one transaction touches, so that nobody else waits long for the lock."""


def open_writer(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Open for writing, and create the file where there is none.

    The connection belongs to the thread that opens it. Raises ProjectUnreadable when the file is no
    database or its folder is missing, Conflict when somebody holds its lock for too long, and
    ProjectUnwritable.
    """
    try:
        connection = sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise _unreadable(path, error) from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise in_words(error, path) or _unreadable(path, error) from error
    return connection


def open_reader(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection | None:
    """Open read-only; None when there is no file.

    Raises ProjectUnreadable when it is no database, Conflict when somebody keeps it for himself.
    """
    if not path.is_file():
        return None
    try:
        return _reading(path, "mode=ro", busy_timeout_s)
    except sqlite3.DatabaseError as error:
        if _lies_still(path, error):
            return _reading(path, "mode=ro&immutable=1", busy_timeout_s)
        raise in_words(error, path) or _unreadable(path, error) from error


def _reading(path: Path, how: str, busy_timeout_s: float) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(address, uri=True, timeout=busy_timeout_s, isolation_level=None)
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection


def _lies_still(path: Path, error: sqlite3.Error) -> bool:
    """Whether nobody can be writing the file, and all is in it: a read-only disk, after a clean end.

    SQLite gives up there, since it can't make the index that readers share with writers.
    """
    may_be_written = os.access(path.parent, os.W_OK) or path.with_name(f"{path.name}-wal").exists()
    return _kind(error) == sqlite3.SQLITE_CANTOPEN and not may_be_written


@contextmanager
def transaction(
    connection: sqlite3.Connection, *, durable: bool = True, patient: bool = True
) -> Iterator[sqlite3.Connection]:
    """One write transaction; rolled back on any exception.

    With `durable` it is on the disk when the block ends. Without, it survives the death of the
    process, and that of the machine once a later durable one has ended (bulk rows that are written
    again after a crash). Raises Conflict when the lock can't be had in time, without `patient` at once,
    and ProjectUnwritable; nothing of the transaction is left then.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    try:
        with _waiting(connection, patient):
            connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("COMMIT")
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        known = in_words(error) if isinstance(error, sqlite3.OperationalError) else None
        if known is None:
            raise
        raise known from error


@contextmanager
def _waiting(connection: sqlite3.Connection, patient: bool) -> Iterator[None]:
    """Whether the block waits for a lock that somebody else has."""
    if patient:
        yield
        return
    (usual_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        yield
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(usual_ms)}")


def in_words(error: sqlite3.Error, path: Path | str = "project.sqlite") -> PotatoRayError | None:
    """What keeps SQLite from writing, as an error of ours; None for a failure of another kind."""
    evidence = f"SQLite says of {path}: {error}."
    if _kind(error) in _LOCKED:
        return Conflict(
            f"{path} is locked by another program.",
            code="registry_locked",
            evidence=f"SQLite says: {error}.",
            next_step="Look for a program that holds it open, such as a database browser, and close it.",
        )
    if _kind(error) == sqlite3.SQLITE_FULL:
        return ProjectUnwritable.full(evidence)
    return ProjectUnwritable.forbidden(evidence) if _kind(error) in _FORBIDDEN else None


_LOCKED = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_FORBIDDEN = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR})


def _kind(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _unreadable(path: Path, error: sqlite3.Error) -> ProjectUnreadable:
    return ProjectUnreadable(
        f"{path} could not be opened as a database.",
        code="registry_unreadable",
        evidence=f"SQLite says: {error}.",
        next_step="Check task_dir and its permissions. Moving a damaged file aside starts an empty registry.",
    )
