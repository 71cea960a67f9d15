"""Our tables in project.sqlite and the migrations that lead to them.

The file may be Potato's: every table of ours is named `potato_ray_…`, and the version is a row of
`potato_ray_migrations` because `user_version` belongs to whoever made the file. A migration is one
transaction; a released one never changes, the next change is a new one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from potato_ray.errors import Conflict
from potato_ray.registry.connection import transaction


@dataclass(frozen=True)
class Migration:
    """One step; `statements` run in order, in the transaction that records the version."""

    version: int
    name: str
    statements: tuple[str, ...]


_RUNS = """
CREATE TABLE potato_ray_runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    project TEXT NOT NULL,
    trainer TEXT NOT NULL,
    schemas TEXT NOT NULL,
    kinds TEXT NOT NULL,
    params TEXT NOT NULL,
    backend TEXT NOT NULL,
    "trigger" TEXT NOT NULL,
    accept_licence INTEGER NOT NULL,
    idempotency_key TEXT,
    state TEXT NOT NULL,
    attempt INTEGER NOT NULL DEFAULT 0,
    begun INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    begun_at REAL,
    started_at REAL,
    finished_at REAL,
    cancel_requested_at REAL,
    step TEXT NOT NULL DEFAULT '',
    phase TEXT NOT NULL DEFAULT '',
    current REAL NOT NULL DEFAULT 0,
    total REAL NOT NULL DEFAULT 0,
    eta_s REAL,
    metrics TEXT NOT NULL DEFAULT '{}',
    scores TEXT NOT NULL DEFAULT '{}',
    headline TEXT,
    result TEXT,
    warnings TEXT NOT NULL DEFAULT '[]',
    error TEXT NOT NULL DEFAULT '',
    error_code TEXT NOT NULL DEFAULT '',
    error_evidence TEXT NOT NULL DEFAULT '',
    error_next_step TEXT NOT NULL DEFAULT '',
    n_train INTEGER,
    n_val INTEGER,
    n_test INTEGER,
    n_unlabeled INTEGER,
    split_seed INTEGER NOT NULL DEFAULT 0,
    bundle_digest TEXT NOT NULL DEFAULT '',
    artifact_dir TEXT NOT NULL DEFAULT '',
    model_version TEXT NOT NULL DEFAULT '',
    host TEXT NOT NULL DEFAULT '',
    pid INTEGER,
    device TEXT NOT NULL DEFAULT '',
    gpu_uuids TEXT NOT NULL DEFAULT '[]',
    peak_rss_mb REAL NOT NULL DEFAULT 0,
    beats_baseline INTEGER,
    writeback TEXT,
    writeback_progress TEXT,
    n_events INTEGER NOT NULL DEFAULT 0,
    last_seq INTEGER NOT NULL DEFAULT 0
)"""

_FIRST = (
    _RUNS,
    "CREATE INDEX potato_ray_runs_by_state ON potato_ray_runs (state, seq)",
    "CREATE UNIQUE INDEX potato_ray_runs_by_key ON potato_ray_runs (idempotency_key)"
    " WHERE idempotency_key IS NOT NULL",
    """
CREATE TABLE potato_ray_events (
    run INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    source TEXT NOT NULL,
    t REAL NOT NULL,
    event TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID""",
    """
CREATE TABLE potato_ray_run_items (
    run INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    split TEXT NOT NULL,
    PRIMARY KEY (run, instance_id)
) WITHOUT ROWID""",
    "CREATE INDEX potato_ray_train_items ON potato_ray_run_items (instance_id) WHERE split = 'train'",
    """
CREATE TABLE potato_ray_predictions (
    run INTEGER NOT NULL,
    instance_id TEXT NOT NULL,
    schema_name TEXT NOT NULL,
    payload TEXT NOT NULL,
    confidence REAL,
    created_at REAL NOT NULL,
    PRIMARY KEY (run, instance_id, schema_name)
) WITHOUT ROWID""",
    "CREATE INDEX potato_ray_predictions_by_pair ON potato_ray_predictions (instance_id, schema_name, run)",
    """
CREATE TABLE potato_ray_prelabels (
    instance_id TEXT NOT NULL,
    schema_name TEXT NOT NULL,
    run INTEGER NOT NULL,
    payload TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (instance_id, schema_name)
) WITHOUT ROWID""",
    "CREATE INDEX potato_ray_prelabels_by_run ON potato_ray_prelabels (run)",
    """
CREATE TABLE potato_ray_reservations (
    backend TEXT NOT NULL,
    gpu_uuid TEXT NOT NULL,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    since REAL NOT NULL,
    PRIMARY KEY (backend, gpu_uuid)
) WITHOUT ROWID""",
    """
CREATE TABLE potato_ray_pins (
    instance_id TEXT PRIMARY KEY,
    pinned_at REAL NOT NULL,
    pinned_by TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID""",
    """
CREATE TABLE potato_ray_tokens (
    token_hash TEXT PRIMARY KEY,
    backend TEXT NOT NULL,
    run_id TEXT,
    created_at REAL NOT NULL,
    last_seen REAL,
    host TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID""",
    "CREATE INDEX potato_ray_tokens_by_backend ON potato_ray_tokens (backend)",
    """
CREATE TABLE potato_ray_pushes (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL,
    repo_id TEXT NOT NULL,
    private INTEGER NOT NULL,
    commit_hash TEXT NOT NULL,
    pushed_by TEXT NOT NULL,
    pushed_at REAL NOT NULL
)""",
)

_NOTICES = """
CREATE TABLE potato_ray_notices (
    delivery_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL,
    facts TEXT NOT NULL,
    created_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    next_try_at REAL NOT NULL
) WITHOUT ROWID"""


def _status(row: str) -> str:
    """SQL: the status as people see it of `row`, NEW or OLD in a trigger; as Run.status has it."""
    ended = "'success', 'error', 'cancelled', 'interrupted'"
    return (
        f"CASE WHEN {row}.cancel_requested_at IS NOT NULL AND {row}.state NOT IN ({ended})"
        f" THEN 'cancelling' WHEN {row}.state = 'offered' THEN 'queued' ELSE {row}.state END"
    )


# Numbers begin at the time of the migration, in microseconds since 1970: those of a registry that replaces
# another are higher, and whoever followed the other one goes on without a gap.
_JOURNAL = (
    """
CREATE TABLE potato_ray_journal (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL,
    event INTEGER NOT NULL DEFAULT 0,
    status TEXT,
    attempt INTEGER,
    t REAL
)""",
    "CREATE INDEX potato_ray_journal_by_run ON potato_ray_journal (run)",
    "INSERT INTO potato_ray_journal (run, event) SELECT run, seq FROM potato_ray_events ORDER BY run, seq",
    "DELETE FROM sqlite_sequence WHERE name = 'potato_ray_journal'",
    "INSERT INTO sqlite_sequence (name, seq)"
    " VALUES ('potato_ray_journal', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)",
    """
CREATE TRIGGER potato_ray_journal_event AFTER INSERT ON potato_ray_events BEGIN
    INSERT INTO potato_ray_journal (run, event) VALUES (NEW.run, NEW.seq);
END""",
    """
CREATE TRIGGER potato_ray_journal_start AFTER INSERT ON potato_ray_runs BEGIN
    INSERT INTO potato_ray_journal (run, status, attempt, t)
    VALUES (NEW.seq, NEW.state, NEW.attempt, NEW.created_at);
END""",
    f"""
CREATE TRIGGER potato_ray_journal_change AFTER UPDATE OF state, cancel_requested_at ON potato_ray_runs
WHEN {_status("NEW")} <> {_status("OLD")} BEGIN
    INSERT INTO potato_ray_journal (run, status, attempt, t)
    VALUES (NEW.seq, {_status("NEW")}, NEW.attempt, (julianday('now') - 2440587.5) * 86400.0);
END""",  # noqa: S608 - only our own words are put in
)

# A begin takes the next number, and a score is compared with that of the success before it; what ended last
# is known from the newest change of each run's status, wherever it lies among thousands of events.
_ORDERS = (
    "CREATE INDEX potato_ray_runs_by_begin ON potato_ray_runs (begun)",
    "CREATE INDEX potato_ray_journal_of_status ON potato_ray_journal (run) WHERE status IS NOT NULL",
)

_AGENTS = (
    """
CREATE TABLE potato_ray_agents (
    backend TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    host TEXT NOT NULL,
    python TEXT NOT NULL DEFAULT '',
    version TEXT NOT NULL DEFAULT '',
    gpus TEXT NOT NULL DEFAULT '[]',
    workdir TEXT NOT NULL DEFAULT '',
    first_seen REAL NOT NULL,
    last_seen REAL NOT NULL,
    run_id TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (backend, agent_id)
) WITHOUT ROWID""",
    "ALTER TABLE potato_ray_runs ADD COLUMN artifact_uri TEXT NOT NULL DEFAULT ''",
)

_OFFERS = ("ALTER TABLE potato_ray_runs ADD COLUMN offered_at REAL",)

_LEAVING = ("ALTER TABLE potato_ray_agents ADD COLUMN has_left INTEGER NOT NULL DEFAULT 0",)

_LACKING = (
    "ALTER TABLE potato_ray_agents ADD COLUMN executable TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE potato_ray_agents ADD COLUMN lacks TEXT NOT NULL DEFAULT '[]'",
)

JOURNAL_VERSION = 3
AGENTS_VERSION = 5

MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, "runs, predictions, reservations, pins, tokens, pushes", _FIRST),
    Migration(2, "notices of ended runs", (_NOTICES,)),
    Migration(JOURNAL_VERSION, "the journal of all runs", _JOURNAL),
    Migration(4, "runs in the order of their begins and ends", _ORDERS),
    Migration(AGENTS_VERSION, "agents, and where the files of their models lie", _AGENTS),
    Migration(6, "since when a run is on offer", _OFFERS),
    Migration(7, "agents that have left", _LEAVING),
    Migration(8, "the packages that an agent lacks", _LACKING),
)


def version(connection: sqlite3.Connection) -> int:
    """The version of our tables in this file; 0 where there are none."""
    found = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'potato_ray_migrations'"
    ).fetchone()
    if found is None:
        return 0
    return int(
        connection.execute("SELECT coalesce(max(version), 0) FROM potato_ray_migrations").fetchone()[0]
    )


def migrate(
    connection: sqlite3.Connection, clock: Callable[[], float], migrations: Sequence[Migration] = MIGRATIONS
) -> int:
    """Bring our tables to the newest version and return it.

    Raises Conflict for a file that a newer potato_ray has written.
    """
    newest = migrations[-1].version
    present = version(connection)
    if present > newest:
        raise Conflict(
            f"The registry has version {present}; this potato_ray knows version {newest}.",
            code="registry_too_new",
            evidence="A newer potato_ray has opened this project.",
            next_step="Upgrade potato_ray.",
        )
    for migration in migrations:
        if migration.version > present:
            _apply(connection, migration, clock())
    return newest


def _apply(connection: sqlite3.Connection, migration: Migration, now: float) -> None:
    with transaction(connection):
        if version(connection) >= migration.version:
            return  # another process was faster
        connection.execute(
            "CREATE TABLE IF NOT EXISTS potato_ray_migrations"
            " (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at REAL NOT NULL)"
        )
        for statement in migration.statements:
            connection.execute(statement)
        connection.execute(
            "INSERT INTO potato_ray_migrations VALUES (?, ?, ?)", (migration.version, migration.name, now)
        )
