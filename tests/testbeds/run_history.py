"""Runs of a served project, moved along as the controller would, with what they leave behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from potato_ray.registry.runs import NewRun, Reservation, Run
from potato_ray.registry.states import State
from potato_ray.server.routes.runs import router

RUNS = f"{router.prefix}/runs"
NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",), {"min_instances": 5})

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
ARTIFACTS = {
    "calibration.json": "{}",
    "model_card.json": "{}",
    "predictions.jsonl": '{"instance_id": "a"}\n',
    "test_reliability.svg": SVG,
    "model/weights.bin": "0123456789",
}
EVENTS = [
    {"event": "status", "phase": "fitting", "step": "fitting on 126 items", "t": 1772357400.0},
    {"event": "metric", "name": "loss", "value": 0.5, "step": 1, "t": 1772357401.0},
    {"event": "log", "level": "warning", "message": "2 items were moved", "t": 1772357402.0},
    {"event": "log", "level": "info", "message": "a lone \ud800 and a smile \U0001f600", "t": 1772357403.0},
    {"event": "result", "n_predictions": 3, "metrics": {}, "t": 1772357404.0},
]
METRICS = {"val_macro_f1": 0.81, "val_coverage": 1.0}
HEADLINE = {"metric": "macro_f1", "split": "val", "value": 0.81, "n_items": 27, "lower_is_better": False}


def wait(served: Any, new: NewRun = NEW) -> Run:
    """A run in the queue, whatever else is under way."""
    registry = served.controller.registry
    return served.controller.write(
        registry.create_run, new, queue_max=1000, allow_queue=True, max_concurrent=1000
    )


def begin(served: Any, run_id: str) -> Run:
    """Take a run out of the queue."""
    registry = served.controller.registry
    run = served.controller.write(registry.begin, run_id, Reservation("local"), 1000)
    assert run is not None
    return run


def move(served: Any, run_id: str, *states: State, **fields: Any) -> Run:
    """Through some states; `fields` are set with the last one."""
    registry, run = served.controller.registry, None
    for state in states:
        set_now = fields if state is states[-1] else {}
        attempt = served.reader.run(run_id).attempt
        run = served.controller.write(registry.transition, run_id, attempt, state, **set_now)
    assert run is not None
    return run


def train(served: Any, run_id: str) -> Run:
    """A worker says its first words: from now on it is known who trains, and since when."""
    registry, run = served.controller.registry, move(served, run_id, State.RUNNING)
    known: Run = served.controller.write(
        registry.update, run_id, run.attempt, pid=4242, started_at=time.time()
    )
    return known


def fail(served: Any, message: str = "It broke.", **fields: Any) -> Run:
    """A run that ended as error."""
    run = wait(served)
    begin(served, run.run_id)
    given = {"error": message, "error_code": "fit_failed", "error_next_step": "Look.", **fields}
    return move(served, run.run_id, State.ERROR, **given)


def succeed(served: Any, n_predictions: int = 3, new: NewRun = NEW) -> Run:
    """A run that ended well: with events, predictions, scores and files."""
    run_id = wait(served, new).run_id
    begin(served, run_id)
    train(served, run_id)
    registry = served.controller.registry
    served.controller.write(registry.record_events, run_id, 1, 0, EVENTS)
    move(served, run_id, State.EVALUATING, State.FINISHING)
    rows = [
        {
            "instance_id": f"item-{number:05}",
            "schema_name": "sentiment",
            "payload": {"label": "positive"},
            "confidence": 0.75,
        }
        for number in range(n_predictions)
    ]
    served.controller.write(registry.store_predictions, run_id, 1, rows)
    leave_files(folder_of(served, run_id))
    scores = {"metrics": METRICS, "headline": HEADLINE, "splits": {}}
    return move(served, run_id, State.SUCCESS, scores=scores, headline=HEADLINE, n_train=126)


def folder_of(served: Any, run_id: str) -> Path:
    """The folder of a run, which nobody has made yet."""
    folder: Path = served.config.training_dir / "runs" / run_id
    return folder


def leave_files(folder: Path) -> None:
    """What a run leaves in its folder."""
    for name, text in {
        **{f"artifacts/{name}": text for name, text in ARTIFACTS.items()},
        "spec.json": "{}",
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
