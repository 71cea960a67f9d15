"""A registry of thousands of runs: a few that it has recorded itself, the rest copies of their rows.

Every ten runs are eight successes with scores by the real scoring, a failure, and one that was cancelled or
interrupted. A copy has its events, its items and Potato's mirror of both, as the original has them; stored
predictions are left of the newest alone, since each success supersedes those before it.
"""

# ruff: noqa: S608  # names of our own tables and columns

from __future__ import annotations

import itertools
import secrets
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import run_history
from many_runs import LONG_REASON
from registry_link import RegistryLink
from scored_runs import scored

from potato_ray.config.models import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State

APART_S = 600.0
"""Between the starts of two runs of the past."""
OTHERS = (State.ERROR, State.CANCELLED, State.ERROR, State.INTERRUPTED)


def write_history(config: ProjectConfig, n_runs: int, big: int = 3, big_items: int = 20_000) -> None:
    """Fill the registry of a project; `big` of the runs have `big_items` items, and events to match.

    The newest of these has its predictions stored and published. Takes some 3 ms a run.
    """
    link = RegistryLink(config)
    served = SimpleNamespace(
        controller=link,
        config=config,
        reader=RegistryReader(config.registry_path, config.annotation_task_name),
    )
    try:
        originals = [_success(served), *(_other(served, state) for state in OTHERS)]
        _copy(config, [run.run_id for run in originals], n_runs - len(originals) - 1 - big)
        for number in range(big):
            _big(served, big_items, keep=number == big - 1)
    finally:
        link.close()


def _success(served: Any) -> Run:
    """A run that says and scores what the real scoring gives for one, with its items recorded."""
    pattern = scored(served, n_items=180, steps=40)
    run = _begun(served)
    link = served.controller
    link.write(
        link.registry.record_events, run.run_id, 1, 0, served.reader.events(pattern.run_id, limit=1000)
    )
    run_history.move(served, run.run_id, State.EVALUATING, State.FINISHING)
    told = {"scores": dict(pattern.scores), "headline": pattern.headline, "writeback": pattern.writeback}
    return run_history.move(served, run.run_id, State.SUCCESS, **told)


def _other(served: Any, state: State) -> Run:
    """A run that got far, and ended without success."""
    run = _begun(served)
    link = served.controller
    link.write(link.registry.record_events, run.run_id, 1, 0, run_history.EVENTS * 5)
    told = {"error": LONG_REASON, "error_code": "fit_failed"} if state is State.ERROR else {}
    if state is State.CANCELLED:
        link.write(link.registry.request_cancel, run.run_id)
    return run_history.move(served, run.run_id, state, **told)


def _begun(served: Any) -> Run:
    """A run whose worker is at work, with its items recorded."""
    run = run_history.wait(served)
    run_history.begin(served, run.run_id)
    link = served.controller
    for split, count in (("train", 144), ("val", 18), ("test", 18)):
        ids = [f"{split}-{number:03}" for number in range(count)]
        link.write(link.registry.record_items, run.run_id, 1, split, ids)
    return run_history.move(served, run.run_id, State.RUNNING, device="cpu", host="lab-server")


def _big(served: Any, n_items: int, *, keep: bool) -> None:
    """A success on many items that has said a lot; `keep`: its predictions are stored."""
    link = served.controller
    run_id = run_history.wait(served, NewRun("sklearn-text", ("sentiment",), ("nominal",))).run_id
    run_history.begin(served, run_id)
    ids = [f"item-{number:06}" for number in range(n_items)]
    for split, part in (("train", ids[: n_items // 2]), ("unlabeled", ids[n_items // 2 :])):
        link.write(link.registry.record_items, run_id, 1, split, part)
    run_history.move(served, run_id, State.RUNNING, device="cpu")
    said = list(itertools.islice(itertools.cycle(run_history.EVENTS), n_items // 4))
    link.write(link.registry.record_events, run_id, 1, 0, said)
    run_history.move(served, run_id, State.EVALUATING, State.FINISHING)
    predictions = [
        {"instance_id": each, "schema_name": "sentiment", "payload": {"label": "good"}, "confidence": 0.8}
        for each in (ids[n_items // 2 :] if keep else ())
    ]
    link.write(link.registry.store_predictions, run_id, 1, predictions)
    scores = {"metrics": run_history.METRICS, "headline": run_history.HEADLINE, "splits": {}}
    run_history.move(served, run_id, State.SUCCESS, scores=scores, headline=run_history.HEADLINE)


# --- copies ---------------------------------------------------------------------------------------

_OF_A_COPY = {
    "seq": "c.seq",
    "run_id": "c.run_id",
    "idempotency_key": "NULL",
    "begun": "c.seq",
    "created_at": "c.created_at",
    **{
        f"{name}_at": f"r.{name}_at - r.created_at + c.created_at"
        for name in ("begun", "started", "finished")
    },
}


def _copy(config: ProjectConfig, originals: list[str], count: int) -> None:
    """So many copies, older than now and of newer numbers, in one transaction that nobody waits for."""
    with closing(sqlite3.connect(config.registry_path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute(
            "CREATE TEMP TABLE copies (seq INTEGER PRIMARY KEY, original INTEGER, run_id, created_at)"
        )
        connection.executemany(
            "INSERT INTO copies VALUES (?, ?, ?, ?)", _copies(connection, originals, count)
        )
        _fill(connection, "potato_ray_runs", "r.seq = c.original", **_OF_A_COPY)
        _fill(connection, "potato_ray_events", "r.run = c.original", run="c.seq")
        _fill(connection, "potato_ray_run_items", "r.run = c.original", run="c.seq")
        connection.execute("ALTER TABLE copies ADD COLUMN original_id")
        connection.execute(
            "UPDATE copies SET original_id = (SELECT run_id FROM potato_ray_runs r WHERE r.seq = original)"
        )
        theirs = {"run_id": "c.run_id"}
        _fill(connection, "training_runs", "r.run_id = c.original_id", **theirs, created_at="c.created_at")
        _fill(connection, "training_run_items", "r.run_id = c.original_id", **theirs)


def _copies(
    connection: sqlite3.Connection, originals: list[str], count: int
) -> list[tuple[int, int, str, float]]:
    """(number, number of the original, run id, created_at) of each; eight of ten are of the first."""
    numbers = {row[1]: row[0] for row in connection.execute("SELECT seq, run_id FROM potato_ray_runs")}
    first, now = connection.execute("SELECT max(seq) + 1, max(created_at) FROM potato_ray_runs").fetchone()
    made = []
    for place in range(count):
        original = originals[
            0 if place % 10 < 8 else 1 + (place // 10 * 2 + place % 2) % (len(originals) - 1)
        ]
        created_at = now - APART_S * (count - place)
        stamp = datetime.fromtimestamp(created_at, UTC).strftime("%Y%m%dT%H%M%S")
        made.append((first + place, numbers[original], f"{stamp}-{secrets.token_hex(3)}", created_at))
    return made


def _fill(connection: sqlite3.Connection, table: str, where: str, **of_a_copy: str) -> None:
    """Copy the rows of the originals; `of_a_copy` are the columns that differ, as SQL."""
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    values = [of_a_copy.get(name, f'r."{name}"') for name in names]
    listed = ", ".join(f'"{name}"' for name in names)
    connection.execute(
        f"INSERT INTO {table} ({listed}) SELECT {', '.join(values)} FROM copies c JOIN {table} r ON {where}"
    )
