"""Agents: the token of each backend, those of single runs, and the agents that have asked for work.

A token is stored as its sha256; it has 32 random bytes, so no slower hash is needed.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

KEPT_AGENTS = 200
"""Of one backend, the last seen; an agent that is started a thousand times is a thousand agents."""
KEPT_FOR_S = 300.0
"""However many there are, none is forgotten that was heard of in so long before the last one."""


@dataclass(frozen=True)
class TokenRecord:
    """The present token of a backend. Times are epoch seconds UTC; `last_seen` None: never used."""

    backend: str
    token_sha256: str
    created_at: float
    last_seen: float | None = None


@dataclass(frozen=True)
class RunToken:
    """A token that is good for one run alone, until that run ends."""

    run_id: str
    backend: str
    token_sha256: str


@dataclass(frozen=True)
class AgentSeen:
    """One agent process: what it said of itself, and when it was last heard of (epoch seconds UTC).

    `gpus` are mappings with uuid, name, total_mb and free_mb; `run_id` is the run that it has in hand, or "".
    `has_left`: it hung up, or sent a result, and asked for nothing more. `executable` is the interpreter of
    its workers, `lacks` are the modules that it has looked for there in vain.
    """

    backend: str
    agent_id: str
    host: str
    python: str = ""
    version: str = ""
    gpus: tuple[Mapping[str, Any], ...] = ()
    workdir: str = ""
    last_seen: float = 0.0
    run_id: str = ""
    first_seen: float = field(default=0.0)
    has_left: bool = False
    executable: str = ""
    lacks: tuple[str, ...] = ()


def put_token(connection: sqlite3.Connection, backend: str, token_sha256: str, now: float) -> None:
    """Give a backend this token; the one that it had is worth nothing from then on."""
    connection.execute("DELETE FROM potato_ray_tokens WHERE backend = ? AND run_id IS NULL", (backend,))
    connection.execute(
        "INSERT INTO potato_ray_tokens (token_hash, backend, created_at) VALUES (?, ?, ?)",
        (token_sha256, backend, now),
    )


def token_of(connection: sqlite3.Connection, backend: str) -> TokenRecord | None:
    """The present token of a backend."""
    row = connection.execute(
        "SELECT backend, token_hash, created_at, last_seen FROM potato_ray_tokens"
        " WHERE backend = ? AND run_id IS NULL",
        (backend,),
    ).fetchone()
    return TokenRecord(*row) if row is not None else None


def backend_of_token(connection: sqlite3.Connection, token_sha256: str) -> str | None:
    """The backend whose present token has this sha256."""
    row = connection.execute(
        "SELECT backend FROM potato_ray_tokens WHERE token_hash = ? AND run_id IS NULL", (token_sha256,)
    ).fetchone()
    return str(row[0]) if row is not None else None


def put_run_token(connection: sqlite3.Connection, token: RunToken, now: float) -> None:
    """Let a run have one more token; those that it has stay good."""
    connection.execute(
        "INSERT INTO potato_ray_tokens (token_hash, backend, run_id, created_at) VALUES (?, ?, ?, ?)",
        (token.token_sha256, token.backend, token.run_id, now),
    )


def drop_run_tokens(connection: sqlite3.Connection, run_id: str) -> None:
    """The run has ended, and its tokens with it."""
    connection.execute("DELETE FROM potato_ray_tokens WHERE run_id = ?", (run_id,))


def run_tokens(connection: sqlite3.Connection) -> list[RunToken]:
    """The tokens of all runs that have any."""
    rows = connection.execute(
        "SELECT run_id, backend, token_hash FROM potato_ray_tokens WHERE run_id IS NOT NULL"
    )
    return [RunToken(*row) for row in rows]


def put_seen(connection: sqlite3.Connection, seen: Sequence[AgentSeen]) -> None:
    """Record agents that were heard of; of one that is known, what it said last."""
    connection.executemany(
        "INSERT INTO potato_ray_agents (backend, agent_id, host, python, version, gpus, workdir, first_seen,"
        " last_seen, run_id, has_left, executable, lacks) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (backend, agent_id) DO UPDATE SET host = excluded.host, python = excluded.python,"
        " version = excluded.version, gpus = excluded.gpus, workdir = excluded.workdir,"
        " last_seen = excluded.last_seen, run_id = excluded.run_id, has_left = excluded.has_left,"
        " executable = excluded.executable, lacks = excluded.lacks",
        [
            (
                each.backend,
                each.agent_id,
                each.host,
                each.python,
                each.version,
                json.dumps([dict(gpu) for gpu in each.gpus]),
                each.workdir,
                each.first_seen or each.last_seen,
                each.last_seen,
                each.run_id,
                int(each.has_left),
                each.executable,
                json.dumps(list(each.lacks)),
            )
            for each in seen
        ],
    )
    for backend in {each.backend for each in seen}:
        _see_token(connection, backend)
        _forget_old(connection, backend)


def _see_token(connection: sqlite3.Connection, backend: str) -> None:
    connection.execute(
        "UPDATE potato_ray_tokens SET last_seen ="
        " (SELECT max(last_seen) FROM potato_ray_agents WHERE backend = :backend AND last_seen >= created_at)"
        " WHERE backend = :backend AND run_id IS NULL",
        {"backend": backend},
    )


def _forget_old(connection: sqlite3.Connection, backend: str) -> None:
    connection.execute(
        "DELETE FROM potato_ray_agents WHERE backend = :backend AND agent_id NOT IN (SELECT agent_id FROM"
        " potato_ray_agents WHERE backend = :backend ORDER BY last_seen DESC LIMIT :kept) AND last_seen <"
        " (SELECT max(last_seen) FROM potato_ray_agents WHERE backend = :backend) - :kept_for_s",
        {"backend": backend, "kept": KEPT_AGENTS, "kept_for_s": KEPT_FOR_S},
    )


def agents(connection: sqlite3.Connection, backend: str) -> list[AgentSeen]:
    """The agents of a backend, the last seen first; also of a file from before they were known to leave."""
    rows = connection.execute(
        "SELECT * FROM potato_ray_agents WHERE backend = ? ORDER BY last_seen DESC, agent_id", (backend,)
    )
    return [_agent(dict(row)) for row in rows]


def _agent(row: dict[str, Any]) -> AgentSeen:
    gpus, has_left = tuple(json.loads(row["gpus"])), bool(row.get("has_left", 0))
    lacks = tuple(json.loads(row.get("lacks", "[]")))
    return AgentSeen(**{**row, "gpus": gpus, "has_left": has_left, "lacks": lacks})
