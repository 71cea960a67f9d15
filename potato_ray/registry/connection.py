"""Connections to project.sqlite: one that writes, many that only read, and the transaction between.

The file may be shared with a running Potato server, so a lock is waited for and never held for more
than one short transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from potato_ray.errors import Conflict, ProjectUnreadable

BUSY_TIMEOUT_S = 15.0

CHUNK = 1000
"""The most rows that one transaction touches, so that nobody else waits long for the lock."""


def open_writer(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection:
    """Open for writing, and create the file where there is none.

    The connection belongs to the thread that opens it. Raises ProjectUnreadable when the file is no
    database or its folder is missing, Conflict when somebody holds its lock for too long.
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
        raise _locked(path, error) if _is_busy(error) else _unreadable(path, error) from error
    return connection


def open_reader(path: Path, busy_timeout_s: float = BUSY_TIMEOUT_S) -> sqlite3.Connection | None:
    """Open read-only; None when there is no file. Raises ProjectUnreadable when it is no database."""
    if not path.is_file():
        return None
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        connection = sqlite3.connect(address, uri=True, timeout=busy_timeout_s, isolation_level=None)
    except sqlite3.OperationalError as error:
        raise _unreadable(path, error) from error
    try:
        connection.row_factory = sqlite3.Row
        connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _unreadable(path, error) from error
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, durable: bool = True) -> Iterator[sqlite3.Connection]:
    """One write transaction; rolled back on any exception.

    With `durable` it is on the disk when the block ends. Without, it survives the death of the
    process, and that of the machine once a later durable one has ended (bulk rows that are written
    again after a crash). Raises Conflict when the lock can't be had in time.
    """
    connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if _is_busy(error):
            raise _locked(None, error) from error
        raise
    try:
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _is_busy(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _locked(path: Path | None, error: sqlite3.Error) -> Conflict:
    return Conflict(
        f"{path or 'project.sqlite'} is locked by another program.",
        code="registry_locked",
        evidence=f"SQLite says: {error}.",
        next_step="Look for a program that holds the file open, such as a database browser, and close it.",
    )


def _unreadable(path: Path, error: sqlite3.Error) -> ProjectUnreadable:
    return ProjectUnreadable(
        f"{path} could not be opened as a database.",
        code="registry_unreadable",
        evidence=f"SQLite says: {error}.",
        next_step="Check task_dir and its permissions. Moving a damaged file aside starts an empty registry.",
    )
