"""The registry's one writer.

The run controller holds the only `Registry` of a project, on one thread. Every method is one
transaction unless its docstring speaks of chunks; when it returns, what it says is on the disk.
"""

from __future__ import annotations

import itertools
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from potato_ray.bundle.split_names import ALL, UNLABELED
from potato_ray.errors import Conflict, NotFound
from potato_ray.registry import (
    agents,
    events,
    items,
    notices,
    potato_tables,
    prelabels,
    queue,
    retention,
    runs,
)
from potato_ray.registry.agents import AgentSeen, RunToken
from potato_ray.registry.connection import BUSY_TIMEOUT_S, CHUNK, open_writer, transaction
from potato_ray.registry.items import StoredPrediction
from potato_ray.registry.notices import Notice
from potato_ray.registry.prelabels import Chunk, Decide, Pair, Progress
from potato_ray.registry.runs import NewRun, Reservation, Reserved, Run
from potato_ray.registry.schema import migrate
from potato_ray.registry.states import ACTIVE, State

T = TypeVar("T")

_WITHDRAWN = {"event": "log", "level": "info", "message": "Its predictions were withdrawn."}


class Registry:
    """Runs, queue, reservations and predictions of one project.

    `path` is `<task_dir>/project.sqlite`, `project` the annotation_task_name, `clock` gives epoch
    seconds UTC. With `notices` the end of each run leaves a notice that is to be delivered. `open`
    first, and then use it on that thread alone.
    """

    def __init__(
        self,
        path: Path,
        project: str,
        clock: Callable[[], float] = time.time,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        *,
        notices: bool = False,
    ) -> None:
        self.path = path
        self.project = project
        self._keeps_notices = notices
        self._clock = clock
        self._busy_timeout_s = busy_timeout_s
        self._opened: sqlite3.Connection | None = None

    def open(self) -> Registry:
        """Open the file and bring our tables up to date.

        Raises Conflict (registry_locked, registry_too_new) and ProjectUnreadable.
        """
        if self._opened is not None:
            return self
        connection = open_writer(self.path, self._busy_timeout_s)
        try:
            migrate(connection, self._clock)
            with transaction(connection):
                potato_tables.ensure(connection)
        except BaseException:
            connection.close()
            raise
        self._opened = connection
        return self

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            raise RuntimeError("the registry is not open")
        return self._opened

    def __enter__(self) -> Registry:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Reading, in the writer's own view

    def run(self, run_id: str) -> Run:
        """One run; raises NotFound."""
        return queue.find(self._connection, run_id)

    def queued(self) -> list[Run]:
        """The waiting runs, oldest first; runs on offer are not among them."""
        return self._runs("r.state = 'queued'")

    def unfinished(self) -> list[Run]:
        """Every run that has not ended, oldest first."""
        return self._runs(queue.UNENDED)

    def _runs(self, where: str) -> list[Run]:
        rows = self._connection.execute(f"{runs.SELECT} WHERE {where} ORDER BY r.seq")
        return [runs.from_row(row) for row in rows]

    def reservations(self) -> list[Reserved]:
        """Every attempt that holds GPUs; what a run that ended still holds is among them."""
        return queue.reservations(self._connection)

    def taken(self, backend: str) -> frozenset[str]:
        """The GPUs that a new run on `backend` can't have.

        Those that runs hold on it, and every UUID that is unique in the world: the same card may be
        reached by two backends.
        """
        return queue.taken(self._connection, backend)

    # The life of a run

    def create_run(
        self, new: NewRun, *, queue_max: int, allow_queue: bool, max_concurrent: int, for_agent: bool = False
    ) -> Run:
        """Put a run in the queue; its `position` is 0 when it need not wait for others.

        A repeated idempotency key returns the run that it made the first time. Raises StartRefused:
        busy when it would have to wait and `allow_queue` is False, queue_full when `queue_max` runs
        wait already (those on offer to agents count for another run `for_agent` alone).
        """
        with transaction(self._connection) as connection:
            return queue.create(
                connection,
                self.project,
                new,
                self._clock(),
                queue_max=queue_max,
                allow_queue=allow_queue,
                max_concurrent=max_concurrent,
                for_agent=for_agent,
            )

    def made_with(self, idempotency_key: str, max_concurrent: int) -> Run | None:
        """The run that a start with this key has made, as `create_run` answers it; None when none has."""
        return queue.made_with(self._connection, idempotency_key, max_concurrent)

    def begin(self, run_id: str, reservation: Reservation | None, max_concurrent: int) -> Run | None:
        """Take a waiting or offered run out of the queue as the next attempt, in state building.

        Slot, GPUs and attempt are taken together. None when it can't be done any more: the run's
        state has changed, the slots are full, or a GPU is taken. `forget_attempt` then.
        """
        with transaction(self._connection) as connection:
            run = queue.begin(
                connection, queue.find(connection, run_id), reservation, max_concurrent, self._clock()
            )
            if run is None:
                return None
            self._mirror(run)
        return run

    def forget_attempt(self, run_id: str) -> None:
        """Drop, in chunks, the items and predictions that an earlier attempt of a run has recorded."""
        run = self.run(run_id)
        seq = queue.seq_of(self._connection, run_id)
        self._drop_predictions(run_id)
        self._repeat(lambda c: items.forget_items(c, seq, CHUNK))
        self._repeat(lambda c: potato_tables.forget_items(c, run.project, run.run_id, CHUNK))

    def transition(self, run_id: str, attempt: int, new_state: State, **fields: Any) -> Run:
        """Change a run's state and set fields of it (see runs.SETTABLE).

        A run leaves the queue only by `begin`. One whose cancel was requested is cancelled where it
        would go back to the queue. What a run that failed has stored counts for nothing from then on;
        `withdraw_step` drops it. Its GPUs stay reserved until `release`. Raises NotFound, Conflict for a
        stale attempt or a change that the table of states forbids, TypeError for an unknown field.
        """
        with transaction(self._connection) as connection:
            run = queue.fenced(connection, run_id, attempt)
            run = queue.transition(connection, run, new_state, fields, self._clock())
            self._mirror(run)
            self._announce(run)
        return run

    def update(self, run_id: str, attempt: int, **fields: Any) -> Run:
        """Set fields of a run without changing its state; raises as `transition` does."""
        with transaction(self._connection) as connection:
            queue.fenced(connection, run_id, attempt)
            queue.set_fields(connection, run_id, fields)
            run = queue.find(connection, run_id)
            self._mirror(run)
        return run

    def request_cancel(self, run_id: str) -> Run:
        """A run that holds no slot is cancelled at once; an active one gets `cancel_requested_at`.

        Asking again changes nothing. Raises NotFound, Conflict (already_ended; wrong_state for a run of
        Potato's own).
        """
        with transaction(self._connection) as connection:
            run = queue.request_cancel(connection, queue.find_ours(connection, run_id), self._clock())
            self._mirror(run)
            self._announce(run)
        return run

    def _announce(self, run: Run) -> None:
        """In the transaction that may have ended the run."""
        if not run.ended:
            return
        agents.drop_run_tokens(self._connection, run.run_id)
        if self._keeps_notices:
            notices.put(self._connection, run, self._clock())

    def _mirror(self, run: Run) -> None:
        folder = str(self.path.parent.absolute() / run.artifact_dir) if run.artifact_dir else ""
        potato_tables.mirror_run(self._connection, run, folder)

    # Notices of ended runs

    def first_notice(self) -> Notice | None:
        """The notice whose next try is the earliest; None when all are delivered or given up."""
        return notices.first(self._connection)

    def postpone_notice(self, notice: Notice, next_try_at: float, message: str) -> None:
        """A try failed: it is counted, the next one is at `next_try_at`, and the run's log says so."""
        with transaction(self._connection) as connection:
            notices.postpone(connection, notice.delivery_id, next_try_at)
            self._log(notice.run_id, message, "info")

    def settle_notice(self, notice: Notice, message: str, level: str = "info") -> None:
        """A notice was delivered or, at level warning, given up; the run's log says so."""
        with transaction(self._connection) as connection:
            notices.remove(connection, notice.delivery_id)
            self._log(notice.run_id, message, level)

    def _log(self, run_id: str, message: str, level: str) -> None:
        try:
            run = queue.find(self._connection, run_id)
        except NotFound:
            return  # its record was pruned
        said = {"event": "log", "level": level, "message": message}
        events.note(self._connection, run, said, self._clock())

    # GPUs

    def reserve(self, run_id: str, attempt: int, reservation: Reservation) -> bool:
        """Reserve GPUs for a run that has begun already; False, and none reserved, when one is taken."""
        with transaction(self._connection) as connection:
            queue.fenced(connection, run_id, attempt)
            return queue.reserve(connection, run_id, attempt, reservation, self._clock())

    def release(self, run_id: str, attempt: int | None = None) -> int:
        """Free the GPUs of an attempt once its process is known to be gone; returns how many.

        An earlier attempt may be released while a later one runs. None: those of all attempts. A run
        that was pruned holds none.
        """
        with transaction(self._connection) as connection:
            return queue.release(connection, run_id, attempt)

    # What a run says

    def record_events(
        self, run_id: str, attempt: int, first_seq: int, said: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Store worker events; `first_seq` is the number of the first of them, counted from 0.

        Events that are stored already are passed over, so a batch may be sent again. At most 1,000
        go into a transaction. True when the sender is stale (another attempt has taken over, or the
        run has ended): nothing is stored then. Raises NotFound.
        """
        for start in range(0, max(1, len(said)), CHUNK):
            with transaction(self._connection) as connection:
                run = queue.find(connection, run_id)
                if run.attempt != attempt or run.state not in ACTIVE:
                    return True
                events.record(connection, run, first_seq + start, said[start : start + CHUNK], self._clock())
        return False

    def note_progress(self, run_id: str, attempt: int, step: str, current: float, total: float) -> None:
        """Set step line and progress without an event; passed over when stale or ended.

        Raises Conflict at once when somebody has locked the registry: nobody shall wait for a step line.
        """
        with transaction(self._connection, durable=False, patient=False) as connection:
            run = queue.find(connection, run_id)
            if run.attempt == attempt and not run.ended:
                values = {"step": step, "current": float(current), "total": float(total)}
                queue.set_fields(connection, run_id, values)

    def record_note(self, run_id: str, attempt: int, event: Mapping[str, Any]) -> None:
        """Store an event of the server's own, also after the run's end; raises NotFound, Conflict.

        It has the form of a worker's event: {"event": "status", "phase", "step"} moves the step
        line, {"event": "log", "level", "message"} adds to the log and, at level warning, to the
        run's warnings. `t` is filled in.
        """
        with transaction(self._connection) as connection:
            run = queue.fenced(connection, run_id, attempt)
            events.note(connection, run, event, self._clock())

    def put_step_over(self, run_id: str, attempt: int, step: str | None, message: str = "") -> None:
        """Lay a passing step over the run's own step line, which keeps its progress; None: take it off.

        The log has the first of several steps, and the `message` when they are taken off. What was never laid
        there is not taken off, and a run that has ended keeps its line. Raises NotFound, Conflict.
        """
        with transaction(self._connection) as connection:
            run = queue.fenced(connection, run_id, attempt)
            if not run.ended:
                events.put_step_over(connection, run, step, message, self._clock())

    # Agents

    def put_token(self, backend: str, token_sha256: str) -> None:
        """Give an agent backend a token (its sha256 in hex); the one before is worth nothing then."""
        with transaction(self._connection) as connection:
            agents.put_token(connection, backend, token_sha256, self._clock())

    def put_run_token(self, run_id: str, attempt: int, token_sha256: str) -> None:
        """Let a run at work have one more token, which goes when the run ends. Raises NotFound, Conflict."""
        with transaction(self._connection) as connection:
            run = queue.fenced_active(connection, run_id, attempt)
            agents.put_run_token(connection, RunToken(run_id, run.backend, token_sha256), self._clock())

    def put_agents_seen(self, seen: Sequence[AgentSeen]) -> None:
        """Record agents that were heard of, and with them when the token was last used."""
        with transaction(self._connection, durable=False) as connection:
            agents.put_seen(connection, seen)

    # Items and predictions

    def record_items(self, run_id: str, attempt: int, split: str, ids: Iterable[str]) -> int:
        """Record the items of a split, in chunks; sets and returns the run's `n_<split>`.

        `split` is train, val, test or unlabeled. Raises NotFound, Conflict, ValueError.
        """
        if split not in ALL:
            raise ValueError(f"{split!r} is no split; splits are {', '.join(ALL)}")
        for chunk in _chunks(ids):
            with transaction(self._connection, durable=False) as connection:
                run = queue.fenced_active(connection, run_id, attempt)
                items.put_split(connection, queue.seq_of(connection, run_id), split, chunk)
                if split != UNLABELED:
                    potato_tables.mirror_items(connection, run, split, chunk)
        count = items.count_split(self._connection, queue.seq_of(self._connection, run_id), split)
        self.update(run_id, attempt, **{f"n_{split}": count})
        return count

    def store_predictions(
        self, run_id: str, attempt: int, rows: Iterable[StoredPrediction | Mapping[str, Any]]
    ) -> int:
        """Stage predictions, in chunks; returns how many rows. Storing them again changes nothing.

        A mapping is a line of predictions.jsonl. They count from the run's success on; a run that ends
        otherwise loses them. Only that success puts them on the disk for good; until then
        artifacts/predictions.jsonl holds them. Raises NotFound, Conflict, RunFailed (no_result).
        """
        queue.fenced_active(self._connection, run_id, attempt)
        total = 0
        for chunk in _chunks(map(_prediction, rows)):
            with transaction(self._connection, durable=False) as connection:
                queue.fenced_active(connection, run_id, attempt)
                items.put_predictions(connection, queue.seq_of(connection, run_id), chunk, self._clock())
            total += len(chunk)
        return total

    def store_lines(self, run_id: str, attempt: int, lines: bytes, first: int) -> int:
        """The same for whole lines of predictions.jsonl, of which the first has the number `first`."""
        return self.store_predictions(run_id, attempt, items.read_lines(lines, first))

    def forced_train(self) -> dict[str, str]:
        """The items that go to train once labelled, with the reason: pinned or corrected."""
        return items.forced_train(self._connection)

    def pins(self) -> list[str]:
        """The pinned items, in order of id."""
        return items.pins(self._connection)

    def add_pins(self, ids: Iterable[str], who: str = "") -> int:
        """Pin items; returns how many were not pinned before."""
        with transaction(self._connection) as connection:
            return items.add_pins(connection, ids, who, self._clock())

    def remove_pins(self, ids: Iterable[str]) -> int:
        """Unpin items; returns how many were pinned."""
        with transaction(self._connection) as connection:
            return items.remove_pins(connection, ids)

    # Pre-labels: the steps that writeback.py drives, one transaction each

    def publish_step(self, run_id: str, attempt: int, decide: Decide, gate_blocks: bool) -> Progress:
        """Settle the next chunk of a run's predictions; call until `done`.

        How far it is lies on the run's row and changes in the same transaction, so that a publication
        that was cut off goes on where it stopped and counts nothing twice. Raises NotFound, Conflict.
        """
        with transaction(self._connection, durable=False) as connection:
            run = queue.fenced(connection, run_id, attempt)
            if run.state not in ACTIVE and run.state is not State.SUCCESS:
                raise Conflict(
                    f"Run {run_id} is {run.status}; only a successful run's predictions are published.",
                    code="wrong_state",
                    next_step="Publish the predictions of a successful run.",
                )
            return prelabels.publish_step(connection, self.project, run_id, decide, gate_blocks, CHUNK)

    def replay_step(self, after: Pair, decide: Decide, gate_blocks: bool) -> Chunk:
        """Settle the newest stored prediction of the next pairs after `after`, ("", "") to begin."""
        with transaction(self._connection, durable=False) as connection:
            return prelabels.settle_newest(connection, self.project, after, decide, gate_blocks, CHUNK)

    def resume_withdrawal(self) -> int:
        """Drop the next predictions of a failed or withdrawn run that still has some; 0: none has."""
        with transaction(self._connection, durable=False) as connection:
            return prelabels.forget_withdrawn(connection, retention.ended_with_predictions(connection), CHUNK)

    def take_off_orphans(self) -> int:
        """Take the next pre-labels off whose prediction is not stored any more; 0: none was left."""
        with transaction(self._connection, durable=False) as connection:
            return prelabels.take_off_orphans(connection, self.project, CHUNK)

    def note_withdrawal(self, run_id: str) -> None:
        """Keep in a run's report and log that it is withdrawn, unless nothing is stored or shown.

        Comes before the first `withdraw_step`, so that a crash does not hide it. Raises NotFound, and
        Conflict (wrong_state) while the run has not ended, and for a run of Potato's own.
        """
        run = queue.find_ours(self._connection, run_id)
        if not run.ended:
            raise Conflict(
                f"Run {run_id} has not ended yet.",
                code="wrong_state",
                next_step="Withdraw its predictions after its end, or cancel it.",
            )
        with transaction(self._connection) as connection:
            if run.writeback is None or not prelabels.has_any(
                connection, queue.seq_of(connection, run.run_id)
            ):
                return
            now = self._clock()
            queue.set_fields(connection, run.run_id, {"writeback": {**run.writeback, "withdrawn_at": now}})
            events.note(connection, run, _WITHDRAWN, now)

    def withdraw_step(self, run_id: str) -> int | None:
        """Drop the next chunk of a run's predictions, or else of its pre-labels.

        Returns how many pre-labels went, None when nothing was left (nor of a run that was pruned since).
        """
        try:
            seq = queue.seq_of(self._connection, run_id)
        except NotFound:
            return None
        with transaction(self._connection, durable=False) as connection:
            # The predictions go first: what a crash leaves is an orphan, and the next replay takes it off.
            if prelabels.forget_predictions(connection, seq, CHUNK):
                return 0
            return prelabels.take_off_run(connection, self.project, seq, CHUNK) or None

    def _drop_predictions(self, run_id: str) -> None:
        while self.withdraw_step(run_id) is not None:
            pass

    # Retention

    def prune(self, retain_runs: int) -> list[str]:
        """Discard superseded predictions and prune records, in chunks; returns the pruned run ids."""
        return [run_id for run_id in self.prune_steps(retain_runs) if run_id]

    def prune_steps(self, retain_runs: int) -> Iterator[str]:
        """The same, with a stop after each transaction: yields the id of a run that went, else ""."""
        for seq in retention.ended_with_predictions(self._connection):
            yield from self._discard_superseded(seq)
        for record in retention.prunable(self._connection, retain_runs):
            yield from self._forget(record)
        for seq in retention.orphans(self._connection):
            yield from self._forget_children(seq)

    def _forget(self, record: retention.Record) -> Iterator[str]:
        for _ in self._chunks_of(
            lambda c: potato_tables.forget_items(c, record.project, record.run_id, CHUNK)
        ):
            yield ""
        with transaction(self._connection) as connection:
            retention.forget(connection, record)
        yield record.run_id

    def _forget_children(self, seq: int) -> Iterator[str]:
        for _ in self._chunks_of(lambda c: retention.forget_children(c, seq, CHUNK)):
            yield ""

    def _discard_superseded(self, seq: int) -> Iterator[str]:
        after: Pair | None = ("", "")
        while after is not None:
            pairs, after = retention.discardable(self._connection, seq, after, CHUNK)
            if pairs:
                with transaction(self._connection, durable=False) as connection:
                    retention.discard(connection, seq, pairs)
            yield ""

    def _repeat(self, step: Callable[[sqlite3.Connection], int]) -> int:
        """Run a step of at most CHUNK rows until it finds nothing; returns how many there were."""
        return sum(self._chunks_of(step))

    def _chunks_of(self, step: Callable[[sqlite3.Connection], int]) -> Iterator[int]:
        """The same with a stop after each transaction; yields how many rows that took."""
        while True:
            with transaction(self._connection, durable=False) as connection:
                done = step(connection)
            if done == 0:
                return
            yield done


def _chunks(rows: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(rows)
    while chunk := list(itertools.islice(iterator, CHUNK)):
        yield chunk


def _prediction(row: StoredPrediction | Mapping[str, Any]) -> StoredPrediction:
    return row if isinstance(row, StoredPrediction) else StoredPrediction.from_json(row)
