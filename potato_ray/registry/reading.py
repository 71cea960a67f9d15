"""Reading the registry: for pages, routes and the CLI, beside the writer and without it.

Every call opens the file read-only and closes it again, so a reader may be used on any thread, needs
no server, and sees what is committed. Where there is no file, or no table of ours in it, there is
simply nothing to read.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any

from potato_ray.errors import NotFound
from potato_ray.registry import (
    agents,
    events,
    items,
    journal,
    occupancy,
    potato_tables,
    prelabels,
    queue,
    runs,
    schema,
    snapshot,
)
from potato_ray.registry.agents import AgentSeen, RunToken, TokenRecord
from potato_ray.registry.connection import BUSY_TIMEOUT_S, CHUNK, open_reader
from potato_ray.registry.items import StoredPrediction
from potato_ray.registry.journal import Stretch
from potato_ray.registry.runs import Reserved, Run
from potato_ray.registry.snapshot import Snapshot
from potato_ray.registry.states import ACTIVE, State, listed

_CANCELLING = f"r.cancel_requested_at IS NOT NULL AND {queue.UNENDED}"


class RegistryReader:
    """`path` is `<task_dir>/project.sqlite`. Raises ProjectUnreadable when the file is no database.

    `project` is the annotation_task_name; runs of every name are listed, since renaming a task must
    not hide them.
    """

    def __init__(self, path: Path, project: str = "", busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self.project = project
        self._busy_timeout_s = busy_timeout_s

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection | None]:
        """A connection in one read transaction; None where nothing of ours can be read."""
        connection = open_reader(self.path, self._busy_timeout_s)
        if connection is None:
            yield None
            return
        try:
            connection.execute("BEGIN")
            yield connection if schema.version(connection) else None
        finally:
            connection.close()

    # Runs

    def run(self, run_id: str) -> Run:
        """One run, ours or Potato's; raises NotFound."""
        connection = open_reader(self.path, self._busy_timeout_s)
        if connection is not None:
            try:
                found = _run(connection, run_id)
            finally:
                connection.close()
            if found is not None:
                return found
        raise NotFound(
            f"No such run: {run_id}", code="unknown_run", next_step="List the runs for their identifiers."
        )

    def is_over(self, run_id: str) -> bool:
        """Whether a run has ended, or there is no record of it any more."""
        try:
            return self.run(run_id).ended
        except NotFound:
            return True

    def runs(
        self, limit: int = 50, status: str | None = None, trainer: str | None = None, *, ours: bool = False
    ) -> list[Run]:
        """The newest runs, ours and Potato's (with `ours`: ours alone), newest first.

        `status` is a status as people see it: cancelling, queued (offered ones are), or a state.
        """
        connection = open_reader(self.path, self._busy_timeout_s)
        if connection is None:
            return []
        try:
            own = _own(connection, limit, status, trainer) if schema.version(connection) else []
            theirs = [] if ours else potato_tables.potato_runs(connection, trainer)
        finally:
            connection.close()
        wanted = [run for run in theirs if status in (None, run.status)]
        wanted.sort(key=lambda run: run.created_at, reverse=True)
        # Ours keep the order in which they were made, which a clock that was set back does not change.
        return list(islice(merge(own, wanted, key=lambda run: -run.created_at), limit))

    def current(self) -> list[Run]:
        """The runs in progress, oldest first; at most max_concurrent_runs of them."""
        return self._runs(f"r.state IN ({listed(ACTIVE)})")

    def unfinished(self) -> list[Run]:
        """Every run that has not ended, oldest first: waiting, on offer, in progress."""
        return self._runs(queue.UNENDED)

    def snapshot(self) -> Snapshot:
        """What is in progress, what waits, and what ended last, all of one moment."""
        with self._open() as connection:
            return snapshot.take(connection) if connection else Snapshot()

    def _runs(self, where: str) -> list[Run]:
        with self._open() as connection:
            if connection is None:
                return []
            return [
                runs.from_row(row)
                for row in connection.execute(f"{runs.SELECT} WHERE {where} ORDER BY r.seq")
            ]

    def previous_success(self, run_id: str) -> tuple[str, dict[str, float]] | None:
        """(run id, held-out metrics) of the newest earlier success on the same first scheme, or None.

        Names of metrics carry the split (`val_macro_f1`), so that a score is compared with its like alone.
        """
        with self._open() as connection:
            if connection is None:
                return None
            row = _success_before(connection, run_id)
        if row is None:
            return None
        metrics = json.loads(row["scores"]).get("metrics") or {}
        return str(row["run_id"]), {
            name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))
        }

    def offered(self, backend: str) -> list[Run]:
        """The runs that wait for an agent of a backend, oldest first."""
        return [run for run in self._runs("r.state = 'offered'") if run.backend == backend]

    def slots_full_s(self, slots: int, since: float, until: float) -> float:
        """For how many seconds between two times (epoch seconds) runs have held so many slots."""
        with self._open() as connection:
            spans = occupancy.spans_between(connection, since, until) if connection else []
        return occupancy.full_s(spans, slots, since, until)

    # Agents

    def token_of(self, backend: str) -> TokenRecord | None:
        """The present token of an agent backend; None where none was issued yet."""
        with self._agents() as connection:
            return agents.token_of(connection, backend) if connection else None

    def backend_of_token(self, token_sha256: str) -> str | None:
        """The backend whose present token has this sha256 (hex)."""
        with self._agents() as connection:
            return agents.backend_of_token(connection, token_sha256) if connection else None

    def run_tokens(self) -> list[RunToken]:
        """The tokens that are good for one run each."""
        with self._agents() as connection:
            return agents.run_tokens(connection) if connection else []

    def agents(self, backend: str) -> list[AgentSeen]:
        """The agents that were heard of on a backend, the last seen first."""
        with self._agents() as connection:
            return agents.agents(connection, backend) if connection else []

    @contextmanager
    def _agents(self) -> Iterator[sqlite3.Connection | None]:
        """As `_open`; None too for a file that was last written before there were agents."""
        with self._open() as connection:
            known = connection is not None and schema.version(connection) >= schema.AGENTS_VERSION
            yield connection if known else None

    # What hangs on a run

    def events(self, run_id: str, after: int = 0, limit: int = 200) -> list[dict[str, Any]]:
        """At most `limit` events of a run, those whose `id` is above `after`; empty for an unknown run.

        Each is the event as it was said, with `id` (counted from 1), `attempt` and `source`.
        """
        with self._open() as connection:
            seq = _seq(connection, run_id)
            return events.read(connection, seq, after, limit) if connection and seq else []

    def newest_events(self, run_id: str, names: Sequence[str], limit: int) -> list[dict[str, Any]]:
        """The last `limit` events of these names (`event`) that a run has, in their order; as `events`."""
        with self._open() as connection:
            seq = _seq(connection, run_id)
            return events.newest(connection, seq, names, limit) if connection and seq else []

    def agents_lost(self, run_id: str) -> int:
        """How many agents were lost with a run, after each of which it was on offer again."""
        with self._open() as connection:
            seq = _seq(connection, run_id)
            return events.count_agents_lost(connection, seq) if connection and seq is not None else 0

    def journal(self, after: int, upto: int, limit: int = 200, run_id: str | None = None) -> Stretch:
        """What happened in all runs, or in one, with after < number <= upto; see journal.read."""
        with self._open() as connection:
            if connection is None:
                return Stretch((), upto)
            return journal.read(connection, after, upto, limit, run_id)

    def predictions(
        self, run_id: str, after: tuple[str, str] = ("", "")
    ) -> Generator[StoredPrediction, None, None]:
        """The predictions of a run that are still stored, in order of item; those behind `after`.

        All that the run made are in its artifacts/predictions.jsonl; those here go when a newer run
        supersedes them or the run's pre-labels are withdrawn. The file stays open, on the thread that
        asked first, until the iterator ends or is closed; `after` (an item and a scheme) takes up where
        an earlier one stopped.
        """
        with self._open() as connection:
            seq = _seq(connection, run_id)
            if connection and seq:
                yield from items.predictions(connection, seq, CHUNK, after)

    def last_seq(self, run_id: str) -> int:
        """How many worker events of the run's present attempt are stored; 0 for an unknown run."""
        with self._open() as connection:
            if connection is None or _seq(connection, run_id) is None:
                return 0
            row = connection.execute(
                "SELECT last_seq FROM potato_ray_runs WHERE run_id = ?", (run_id,)
            ).fetchone()
            return int(row[0])

    # The project

    def pins(self) -> list[str]:
        """The pinned items, in order of id."""
        with self._open() as connection:
            return items.pins(connection) if connection else []

    def forced_train(self) -> dict[str, str]:
        """The items that go to train once labelled, with the reason: pinned or corrected."""
        with self._open() as connection:
            return items.forced_train(connection) if connection else {}

    def reservations(self) -> list[Reserved]:
        """Every GPU that a run holds."""
        with self._open() as connection:
            return queue.reservations(connection) if connection else []

    def shown(self, instance_id: str) -> dict[str, Any]:
        """The pre-labels on an item: payload by scheme."""
        with self._open() as connection:
            return prelabels.shown(connection, instance_id) if connection else {}


def _seq(connection: sqlite3.Connection | None, run_id: str) -> int | None:
    if connection is None:
        return None
    row = connection.execute("SELECT seq FROM potato_ray_runs WHERE run_id = ?", (run_id,)).fetchone()
    return int(row[0]) if row is not None else None


def _run(connection: sqlite3.Connection, run_id: str) -> Run | None:
    if schema.version(connection):
        row = connection.execute(f"{runs.SELECT} WHERE r.run_id = ?", (run_id,)).fetchone()
        if row is not None:
            return runs.from_row(row)
    return potato_tables.potato_run(connection, run_id)


def _success_before(connection: sqlite3.Connection, run_id: str) -> sqlite3.Row | None:
    """Run id and scores. The plus keeps SQLite from sorting all successes: the newest is near the run."""
    found: sqlite3.Row | None = connection.execute(
        "SELECT o.run_id, o.scores FROM potato_ray_runs o JOIN potato_ray_runs r"
        " ON r.run_id = ? AND o.begun < r.begun AND json_extract(o.schemas, '$[0]') ="
        " json_extract(r.schemas, '$[0]') WHERE +o.state = 'success' ORDER BY o.begun DESC LIMIT 1",
        (run_id,),
    ).fetchone()
    return found


def _own(connection: sqlite3.Connection, limit: int, status: str | None, trainer: str | None) -> list[Run]:
    where, values = ["1"], []
    if status == "cancelling":
        where.append(_CANCELLING)
    elif status is not None:
        states = [State.QUEUED, State.OFFERED] if status == "queued" else [status]
        where.append(f"r.state IN ({', '.join('?' * len(states))}) AND NOT ({_CANCELLING})")
        values += [str(state) for state in states]
    if trainer is not None:
        where.append("r.trainer = ?")
        values.append(trainer)
    rows = connection.execute(
        f"{runs.SELECT} WHERE {' AND '.join(where)} ORDER BY r.seq DESC LIMIT ?", [*values, limit]
    )
    return [runs.from_row(row) for row in rows]
