"""Each item's split per run, pinned items, and the predictions that a run has stored."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potato_ray.errors import RunFailed
from potato_ray.registry.potato_tables import corrected_items
from potato_ray.registry.runs import to_json
from potato_ray.trainers.value_range import finite_number


@dataclass(frozen=True)
class StoredPrediction:
    """A prediction of one run; `payload` as trainers.kinds describes it, `confidence` in 0..1 or None."""

    instance_id: str
    schema_name: str
    payload: Mapping[str, Any]
    confidence: float | None = None

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> StoredPrediction:
        """A line of predictions.jsonl. Raises RunFailed (no_result) when it is not one."""
        payload = body.get("payload") if isinstance(body, Mapping) else None
        if not isinstance(payload, Mapping) or "instance_id" not in body or not body.get("schema_name"):
            raise RunFailed(
                "A line of predictions.jsonl is no prediction.",
                code="no_result",
                evidence=f"It reads {body!r}"[:300],
                next_step="Start the run again; if it happens again, report it to the trainer's authors.",
            )
        confidence = finite_number(body.get("confidence"))
        return cls(str(body["instance_id"]), str(body["schema_name"]), payload, confidence)


def read_lines(text: bytes, first: int) -> list[StoredPrediction]:
    """The predictions in whole lines of predictions.jsonl, of which the first has the number `first`.

    Raises RunFailed (no_result) for a line that is no prediction.
    """
    lines = text.decode("utf-8", "replace").removesuffix("\n").split("\n")
    return [StoredPrediction.from_json(_body(line, number)) for number, line in enumerate(lines, first)]


def _body(line: str, number: int) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        raise RunFailed(
            f"Line {number} of predictions.jsonl is no JSON.",
            code="no_result",
            next_step="Start the run again; if it happens again, look at the worker's stderr.log.",
        ) from None


def put_split(connection: sqlite3.Connection, run: int, split: str, ids: Sequence[str]) -> None:
    """Record the split of these items; an item that is recorded already changes its split."""
    connection.executemany(
        "INSERT OR REPLACE INTO potato_ray_run_items (run, instance_id, split) VALUES (?, ?, ?)",
        [(run, instance_id, split) for instance_id in ids],
    )


def count_split(connection: sqlite3.Connection, run: int, split: str) -> int:
    """How many items of the run are in a split."""
    found = connection.execute(
        "SELECT count(*) FROM potato_ray_run_items WHERE run = ? AND split = ?", (run, split)
    )
    return int(found.fetchone()[0])


def forget_items(connection: sqlite3.Connection, run: int, limit: int) -> int:
    """Delete at most `limit` item rows of a run; returns how many went, 0: none left."""
    return connection.execute(
        "DELETE FROM potato_ray_run_items WHERE run = ? AND instance_id IN"
        " (SELECT instance_id FROM potato_ray_run_items WHERE run = ? LIMIT ?)",
        (run, run, limit),
    ).rowcount


def put_predictions(
    connection: sqlite3.Connection, run: int, rows: Sequence[StoredPrediction], now: float
) -> None:
    """Stage predictions of a run; a repeated pair replaces the earlier one."""
    connection.executemany(
        "INSERT OR REPLACE INTO potato_ray_predictions"
        " (run, instance_id, schema_name, payload, confidence, created_at) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (
                run,
                each.instance_id,
                each.schema_name,
                to_json(each.payload),
                finite_number(each.confidence),
                now,
            )
            for each in rows
        ],
    )


def predictions(
    connection: sqlite3.Connection, run: int, chunk: int, after: tuple[str, str] = ("", "")
) -> Iterator[StoredPrediction]:
    """The stored predictions of a run in order of item, read `chunk` rows at a time.

    They begin behind `after`, an item and a scheme.
    """
    while True:
        rows = connection.execute(
            "SELECT instance_id, schema_name, payload, confidence FROM potato_ray_predictions"
            " WHERE run = ? AND (instance_id, schema_name) > (?, ?)"
            " ORDER BY instance_id, schema_name LIMIT ?",
            (run, *after, chunk),
        ).fetchall()
        for row in rows:
            yield StoredPrediction(row[0], row[1], json.loads(row[2]), row[3])
        if len(rows) < chunk:
            return
        after = (rows[-1][0], rows[-1][1])


def pins(connection: sqlite3.Connection) -> list[str]:
    """The pinned items, in order of id; they go to train once they are labelled."""
    return [
        row[0] for row in connection.execute("SELECT instance_id FROM potato_ray_pins ORDER BY instance_id")
    ]


def forced_train(connection: sqlite3.Connection) -> dict[str, str]:
    """Why an item always goes to train: "pinned", or "corrected" by a reviewer, which says more."""
    return dict.fromkeys(pins(connection), "pinned") | dict.fromkeys(corrected_items(connection), "corrected")


def add_pins(connection: sqlite3.Connection, ids: Iterable[str], who: str, now: float) -> int:
    """Pin items; returns how many were not pinned before."""
    return connection.executemany(
        "INSERT OR IGNORE INTO potato_ray_pins (instance_id, pinned_at, pinned_by) VALUES (?, ?, ?)",
        [(instance_id, now, who) for instance_id in ids],
    ).rowcount


def remove_pins(connection: sqlite3.Connection, ids: Iterable[str]) -> int:
    """Unpin items; returns how many were pinned."""
    return connection.executemany(
        "DELETE FROM potato_ray_pins WHERE instance_id = ?", [(instance_id,) for instance_id in ids]
    ).rowcount
