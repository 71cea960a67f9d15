"""`potato-ray training runs`, `show` and `log`: they read the registry, with or without a server."""

from __future__ import annotations

from pathlib import Path

from potato_ray.cli.output import duration, out, print_json, print_table, say, when
from potato_ray.cli.summary import detail_lines, score_line
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import NotFound
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.run_log import all_events, log_lines

LATEST = "latest"


def reader_of(config: ProjectConfig) -> RegistryReader:
    return RegistryReader(config.registry_path, project=config.annotation_task_name)


def find_run(reader: RegistryReader, name: str, status: str | None = None) -> Run:
    """A run by its id, or for `latest` the newest one, in state `status` if given. Raises NotFound."""
    if name != LATEST:
        return reader.run(name)
    newest = reader.runs(limit=1, status=status)
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
    headings = (
        "run",
        "status",
        "trainer",
        "schemes",
        "train/val/test",
        "held-out score",
        "ran on",
        "took",
        "created",
    )
    print_table(headings, [_row(run) for run in runs])
    return 0


def _row(run: Run) -> tuple[str, ...]:
    sizes = "" if run.n_train is None else f"{run.n_train}/{run.n_val or 0}/{run.n_test or 0}"
    took = duration(run.finished_at - run.started_at) if run.started_at and run.finished_at else ""
    status = f"waiting #{run.position}" if run.position else str(run.state)
    score = score_line(run).split(" · ")[0]
    made_by = "" if run.made_by == "potato_ray" else f" ({run.made_by})"
    return (
        run.run_id,
        status + (f" ({run.error_code})" if run.error_code else ""),
        run.trainer,
        ",".join(run.schemas),
        sizes,
        score,
        run.backend + made_by,
        took,
        when(run.created_at),
    )


def show_run(name: str, config: Path, *, as_json: bool) -> int:
    run = find_run(reader_of(load(config)), name)
    if as_json:
        print_json(run.as_json())
    else:
        for line in detail_lines(run):
            out(line)
    return 0


def show_log(name: str, config: Path, *, as_json: bool) -> int:
    reader = reader_of(load(config))
    events = all_events(reader, find_run(reader, name).run_id)
    if as_json:
        print_json({"events": list(events)})
    else:
        for line in log_lines(events):
            out(line)
    return 0
