#!/usr/bin/env python3
"""What thousands of runs in the registry cost: lists of runs, a run, the status, and the controller's start.

    python tests/bench/many_runs_speed.py --runs 10000

A real server on a project with that history, and one on the same project without. Each page and route is
asked for by one client over one connection, again and again; then controllers are started in turn on either
project, in a process of their own each, Ray being up: from the making of the actor to its answer that it has
opened and reconciled the registry. Beside these the parts of its work that read many rows.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from against_potato import make_project
from long_history import write_history
from server_process import API, ServerProcess
from steady_requests import in_words

from potato_ray.actors.session import Session
from potato_ray.config import ProjectConfig, load
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.retention import orphans, prunable
from potato_ray.registry.store import Registry
from potato_ray.writeback import Replay, WritebackSettings

LABELLED = 150
WARM_UP = 5
SETTINGS = "  retain_runs: 1000000\n"
START_TIMEOUT_S = 120.0


def project(folder: Path, n_runs: int) -> ProjectConfig:
    folder.mkdir()
    make_project(folder, LABELLED)
    path = folder / "config.yaml"
    path.write_text(path.read_text() + SETTINGS)
    config = load(path)
    if n_runs:
        began = time.perf_counter()
        write_history(config, n_runs)
        mb = config.registry_path.stat().st_size / 1e6
        print(f"{n_runs:,} runs written in {time.perf_counter() - began:.0f} s, {mb:,.0f} MB\n")
    return config


def lists(config: ProjectConfig, times: int) -> None:
    """Time the pages and routes that a history may slow down."""
    server = ServerProcess(config)
    try:
        server.wait_ready()
        newest = RegistryReader(config.registry_path).runs(1)
        run_id = newest[0].run_id if newest else "none"
        place = urlsplit(server.url)
        client = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        for path in (
            "/admin/training",
            "/admin/training?status=error",
            "/admin/training?trainer=nobody",
            "/admin/training?limit=500",
            f"{API}/runs",
            f"{API}/runs?status=error",
            f"{API}/runs?limit=500",
            f"{API}/status",
            f"{API}/runs/{run_id}",
            f"/admin/training/runs/{run_id}",
        ):
            print(f"  {path.replace(run_id, '…'):<42}{_asked(client, path, server.headers(), times)}")
    finally:
        server.close()


def _asked(client: http.client.HTTPConnection, path: str, headers: dict[str, str], times: int) -> str:
    took_ms = []
    for _ in range(WARM_UP + times):
        began = time.perf_counter()
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        size = len(answer.read())
        took_ms.append(1000 * (time.perf_counter() - began))
        if answer.status not in (200, 404):
            raise RuntimeError(f"{path} answered {answer.status}")
    return f"{in_words(took_ms[WARM_UP:])}, {size / 1000:,.0f} kB, {answer.status}"


def writer(config: ProjectConfig) -> None:
    """Time what the controller's writer does that a history may slow down."""
    with Registry(config.registry_path, config.annotation_task_name) as registry:
        connection = registry._connection
        parts: dict[str, Callable[[], object]] = {
            "unfinished runs": registry.unfinished,
            "waiting runs": registry.queued,
            "prunable runs": lambda: prunable(connection, 1_000_000),
            "orphans": lambda: orphans(connection),
            "the number of a begin": lambda: connection.execute(
                "SELECT max(begun) FROM potato_ray_runs"
            ).fetchone(),
        }
        for name, part in parts.items():
            took_ms = [_took_ms(part) for _ in range(20)]
            print(f"  {name:<42}{in_words(took_ms).replace('requests', 'times')}")
        settings = WritebackSettings.from_config(config.model_training.writeback, config.annotation_schemes)
        replay = Replay(registry, settings)
        took_ms = [_took_ms(lambda: _run_to_its_end(replay))]
        print(
            f"  {'replay of the stored predictions':<42}{took_ms[0]:.0f} ms, {replay.report().n_read:,} read"
        )


def _run_to_its_end(replay: Replay) -> None:
    while not replay.step():
        pass


def _took_ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


def controller_start(config: ProjectConfig) -> tuple[float, float]:
    """(seconds of the controller's start, seconds of Ray's before it), in a process of its own."""
    command = [sys.executable, __file__, "--start", str(config.path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=START_TIMEOUT_S)
    body = json.loads(done.stdout.splitlines()[-1])
    return body["controller_s"], body["ray_s"]


def _start_here(path: Path) -> None:
    """Bring a controller up in this process and print what its start took."""
    session = Session(load(path), "benchmark", warm=False)
    session.hold()
    start, up_at = session.cluster.start, [0.0]

    def start_and_note(backends: list[str]) -> None:
        start(backends)
        up_at[0] = time.perf_counter()

    session.cluster.start = start_and_note  # type: ignore[method-assign,assignment]
    try:
        began = time.perf_counter()
        session.bring_up()
        ended = time.perf_counter()
    finally:
        session.close()
    print(json.dumps({"controller_s": ended - up_at[0], "ray_s": up_at[0] - began}))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=100, help="how often to ask for each page and route")
    parser.add_argument(
        "--starts", type=int, default=5, help="how many starts of a controller, on either project"
    )
    parser.add_argument("--start", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.start:
        _start_here(options.start)
        return
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        configs = {"none": project(Path(name) / "none", 0)}
        configs[f"{options.runs:,}"] = project(Path(name) / "many", options.runs)
        for title, config in configs.items():
            print(f"runs in the registry: {title}")
            lists(config, options.times)
            writer(config)
        starts: dict[str, list[tuple[float, float]]] = {title: [] for title in configs}
        for _ in range(options.starts):
            for title, config in configs.items():
                starts[title].append(controller_start(config))
        for title, took in starts.items():
            controller_s, ray_s = zip(*took, strict=True)
            said = ", ".join(f"{each:.2f}" for each in sorted(controller_s))
            print(f"controller's start with {title} runs: {said} s (Ray {statistics.median(ray_s):.2f} s)")


if __name__ == "__main__":
    main()
