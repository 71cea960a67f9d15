#!/usr/bin/env python3
"""Where the time of a run goes, from the POST of its start to `success`, at several sizes.

    python tests/bench/run_profile.py --sizes 150 2000 20000 --runs 5

A real server with its spare worker ready before each run. The moments are the times of the run's own
events and of its row; the table shows the median of each stretch in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from against_potato import SETTLE_S, Side, make_project
from server_process import ServerProcess

from potato_ray.config import ProjectConfig, load
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run

MAX_EVENTS = 10_000


def moments(run: Run, events: list[dict[str, Any]], posted_at: float, seen_at: float) -> dict[str, float]:
    """Epoch seconds of the moments of a run that are known, by name, in their order."""
    found = {"posted": posted_at, "taken from the queue": float(run.begun_at or 0.0)}
    names = {
        ("server", "building the bundle"): "build asked for",
        ("worker", "loading the trainer"): "worker at work",
        ("worker", "reading the bundle"): "trainer loaded",
        ("worker", "predicting on items that the model has not seen"): "model fitted",
        ("worker", "listing the model's files"): "predicted",
        ("server", "scoring on the held-out items"): "worker's end noticed",
        ("server", "writing predictions back"): "scored, predictions stored",
    }
    for event in events:
        name = names.get((str(event["source"]), str(event.get("step"))))
        if name is None and event["source"] == "worker" and event.get("step", "").startswith("fitting "):
            name = "fit begun"
        if name is not None:
            found.setdefault(name, float(event["t"]))
    found["written back"] = float(run.finished_at or 0.0)
    found["seen by the client"] = seen_at
    return found


def profile(config: ProjectConfig, side: Side, runs: int) -> dict[str, list[float]]:
    """Seconds of each stretch, by the moment that ends it."""
    stretches: dict[str, list[float]] = {}
    reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
    for _ in range(runs):
        time.sleep(SETTLE_S)
        posted_at = time.time()
        took_s, run_id = side.run()
        run, events = reader.run(run_id), reader.events(run_id, limit=MAX_EVENTS)
        known = moments(run, events, posted_at, posted_at + took_s)
        before = posted_at
        for name, at in list(known.items())[1:]:
            stretches.setdefault(name, []).append(at - before)
            before = at
        stretches.setdefault("all", []).append(took_s)
    return stretches


def measure(size: int, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        make_project(Path(name), size)
        config = load(Path(name) / "config.yaml")
        server = ServerProcess(config).wait_ready()
        try:
            side = Side("ours", server.url, Path(name), "sentiment")
            side.run()
            stretches = profile(config, side, runs)
        finally:
            server.close()
    print(f"{size} labelled items, median of {runs} runs, ms up to:")
    for moment, taken in stretches.items():
        print(f"  {moment:28s} {1000 * statistics.median(taken):8.0f}")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[150, 2000, 20000], help="labelled items")
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    for size in args.sizes:
        measure(size, args.runs)


if __name__ == "__main__":
    main()
