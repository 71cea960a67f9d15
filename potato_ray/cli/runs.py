"""`potato-ray training runs`, `show` and `log`: they read the registry, with or without a server."""

from __future__ import annotations

from pathlib import Path

from potato_ray import run_lookup
from potato_ray.cli.output import out, print_json, print_table, say
from potato_ray.cli.summary import detail_lines, step_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import NotFound
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.run_log import all_events, log_lines

LATEST = "latest"
WIDTH = 100
"""The most characters of a line of the list of runs."""


def reader_of(config: ProjectConfig) -> RegistryReader:
    return RegistryReader(config.registry_path, project=config.annotation_task_name)


def find_run(config: ProjectConfig, name: str, status: str | None = None) -> Run:
    """A run by its id or the end of it, or for `latest` the newest one, of those in state `status` if given.

    Raises NotFound, which names the folder that a pruned run has left.
    """
    reader = reader_of(config)
    if name != LATEST:
        return run_lookup.named_run(config, reader, name)
    # Of a run that Potato made itself there is no model of ours, and nothing to withdraw.
    newest = reader.runs(limit=1, status=status, ours=status is not None)
    if not newest:
        which = f"run that ended as {status}" if status else "run yet"
        raise NotFound(f"The project has no {which}.", next_step="Start one with potato-ray training run.")
    return newest[0]


def list_runs(config: Path, limit: int, status: str, trainer: str, *, as_json: bool) -> int:
    known = sorted({*State, "cancelling"})
    if status and status not in known:
        raise NotFound(f"There is no state '{status}'.", next_step=f"The states are {', '.join(known)}.")
    runs = reader_of(load(config)).runs(limit=limit, status=status or None, trainer=trainer or None)
    if not runs and not as_json:
        say("no such run" if status or trainer else "no run yet")
        return 0
    if as_json:
        print_json({"runs": [run.as_json() for run in runs]})
        return 0
    headings = ("run", "status", "trainer", "scheme", "items", "held-out score", "ran on")
    rows, steps = [_row(run) for run in runs], [step_of(run) for run in runs]
    print_table(headings, rows, width=WIDTH, whole=("run", "held-out score"), notes=steps)
    return 0


def _row(run: Run) -> tuple[str, ...]:
    """Its cells; the run's id says when it was created, and the score's column why there is none."""
    sizes = "" if run.n_train is None else f"{run.n_train}/{run.n_val or 0}/{run.n_test or 0}"
    status = f"waiting #{run.position}" if run.position else str(run.state)
    if run.state is State.OFFERED:
        status = "no free slot" if run.step else "no agent yet"
    made_by = "" if run.made_by == "potato_ray" else f" ({run.made_by})"
    return (
        run.run_id,
        status,
        run.trainer,
        run.scheme,
        sizes,
        _score(run) or run.error_code,
        run.backend + made_by,
    )


def _score(run: Run) -> str:
    """`val macro_f1 0.844`, `test mae 0.312, lower is better`; "" without a score."""
    headline = run.scores.get("headline")
    if not headline:
        return ""
    note = ", lower is better" if headline.get("lower_is_better") else ""
    return f"{headline['split']} {headline['metric']} {headline['value']:.3f}{note}"


def show_run(name: str, config: Path, *, as_json: bool) -> int:
    loaded = load(config)
    run = find_run(loaded, name)
    if as_json:
        print_json(run.as_json())
    else:
        for line in detail_lines(run, loaded.task_dir):
            out(line)
    return 0


def show_log(name: str, config: Path, *, as_json: bool) -> int:
    loaded = load(config)
    events = all_events(reader_of(loaded), find_run(loaded, name).run_id)
    if as_json:
        print_json({"events": list(events)})
    else:
        for line in log_lines(events):
            out(line)
    return 0
