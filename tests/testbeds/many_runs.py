"""A project with a past: runs of every end, long names, a run under way and others that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry

LONG_SCHEME = "which_of_the_seventeen_aspects_of_customer_service_does_the_reviewer_complain_about"
LONG_REASON = (
    "Schema 'sentiment' has 1 distinct label(s) in the data: <b>every</b> annotator of the pilot answered "
    "'neither satisfied nor dissatisfied with the delivery (including partial and late deliveries)'."
)
RULE = {"queue_max": 99, "allow_queue": True}


class Past:
    """Writes runs into a registry as the controller would, with a clock of its own."""

    def __init__(self, registry: Registry, slots: int = 1) -> None:
        self.registry = registry
        self.slots = slots

    def queue(self, schemas: Sequence[str] = ("sentiment",), trainer: str = "sklearn-text") -> Run:
        new = NewRun(trainer, tuple(schemas), ("nominal",) * len(schemas), {"min_instances": 10})
        return self.registry.create_run(new, max_concurrent=self.slots, **RULE)

    def begin(self, schemas: Sequence[str] = ("sentiment",), trainer: str = "sklearn-text") -> Run:
        run = self.registry.begin(self.queue(schemas, trainer).run_id, None, self.slots)
        assert run is not None
        for split, count in (("train", 126), ("val", 28), ("test", 26)):
            self.registry.record_items(run.run_id, 1, split, [f"{split}-{number}" for number in range(count)])
        return run

    def working(self, schemas: Sequence[str] = ("sentiment",), trainer: str = "sklearn-text") -> Run:
        """A run in the middle of its work."""
        run = self.begin(schemas, trainer)
        self.move(run, State.RUNNING, device="cpu")
        said: list[dict[str, Any]] = [
            {"event": "status", "phase": "fitting", "step": "fitting LogisticRegression"},
            {"event": "progress", "current": 1200, "total": 3000, "eta_s": 95.0},
            {"event": "metric", "name": "train_loss", "value": 0.4312, "step": 12},
            {"event": "metric", "name": "n_features", "value": 18231},
            {"event": "log", "level": "warning", "message": "3 torn annotation files were left out."},
        ]
        self.registry.record_events(run.run_id, 1, 0, said)
        return run

    def succeed(self, value: float = 0.796, **where: Any) -> Run:
        run = self.begin(**where)
        self.move(run, State.RUNNING, device="cpu")
        headline = {
            "metric": "macro_f1",
            "split": "val",
            "value": value,
            "n_items": 28,
            "lower_is_better": False,
            "low": value - 0.08,
            "high": value + 0.07,
            "baseline": 0.391,
            "previous": None,
            "comparable": True,
        }
        scores = {"headline": headline, "metrics": {"val_macro_f1": value}}
        self.move(run, State.EVALUATING, State.FINISHING)
        return self.move(run, State.SUCCESS, scores=scores, headline=headline)

    def fail(self, error: str = LONG_REASON, code: str = "validation_failed", **where: Any) -> Run:
        run = self.begin(**where)
        self.move(run, State.RUNNING, device="cpu")
        next_step = "Label items with other answers, then start again."
        return self.move(run, State.ERROR, error=error, error_code=code, error_next_step=next_step)

    def cancel(self, **where: Any) -> Run:
        run = self.begin(**where)
        self.registry.request_cancel(run.run_id)
        return self.move(run, State.CANCELLED)

    def interrupt(self, **where: Any) -> Run:
        return self.move(self.begin(**where), State.INTERRUPTED)

    def move(self, run: Run, *states: State, **fields: Any) -> Run:
        for state in states:
            last = fields if state is states[-1] else {}
            run = self.registry.transition(run.run_id, 1, state, **last)
        return run


def thirty_runs(registry: Registry) -> list[Run]:
    """Thirty runs that have ended: most well, some not, some with names as long as they may get."""
    past = Past(registry)
    runs = []
    for number in range(26):
        schemas = (LONG_SCHEME, "sentiment") if number % 7 == 3 else ("sentiment",)
        runs.append(past.succeed(0.62 + 0.007 * number, schemas=schemas))
    runs.append(past.cancel())
    runs.append(past.interrupt())
    runs.append(past.fail())
    runs.append(past.succeed(0.812))
    return runs


def a_run_and_a_queue(registry: Registry, waiting: int = 3) -> list[Run]:
    """A run under way and others behind it."""
    past = Past(registry)
    return [
        past.working(),
        *(past.queue(("sentiment", LONG_SCHEME) if n == 1 else ("sentiment",)) for n in range(waiting)),
    ]
