#!/usr/bin/env python3
"""How fast GET status answers while a bundle builds, and in every other part of a run.

    python tests/bench/status_latency.py --labelled 20000 --runs 15 --rate 100

A real server, real runs one after the other, and one client that asks at a steady rate, whatever the answer
before took. Each answer counts for the state that it tells of. Beside the times stand how late a thread of
the client wakes that only sleeps (what the machine adds, when something else works on it), how many different
steps and positions the answers of a build showed, and the longest while without a new one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from against_potato import make_project
from server_process import API, ServerProcess
from steady_requests import Answered, SteadyRequests, in_words

from potato_ray.config import load

RUN_TIMEOUT_S = 120.0
SETTLE_S = 3.0
"""Between two runs: the server is idle, and the spare worker ready again."""
STATES = ("idle", "building", "running", "evaluating", "finishing")


def follow(server: ServerProcess, runs: int, rate_hz: float) -> list[SteadyRequests]:
    """Train so many times; what was asked in each run, the idle time before it included."""
    with httpx.Client(base_url=server.url, headers=server.headers(), trust_env=False, timeout=60) as http:
        return [_one(server, http, rate_hz) for _ in range(runs)]


def _one(server: ServerProcess, http: httpx.Client, rate_hz: float) -> SteadyRequests:
    with SteadyRequests(server.url, f"{API}/status", server.headers(), rate_hz) as asking:
        time.sleep(SETTLE_S)
        body = {"trainer": "sklearn-text", "schemas": ["sentiment"]}
        run_id = http.post(f"{API}/runs", json=body).raise_for_status().json()["run_id"]
        deadline = time.monotonic() + RUN_TIMEOUT_S
        while (state := _end(asking.answers[-1:], run_id)) == "":
            if time.monotonic() > deadline:
                raise TimeoutError(f"run {run_id} has not ended after {RUN_TIMEOUT_S:.0f} s")
            time.sleep(0.05)
    if state != "success":
        raise RuntimeError(f"run {run_id} ended as {state}")
    return asking


def _end(answers: Sequence[Answered], run_id: str) -> str:
    """How the run has ended, as the newest answer tells; "" before that."""
    last = answers[-1].json()["last"] if answers else None
    return str(last["status"]) if last and last["run_id"] == run_id else ""


def tell(asked: Sequence[SteadyRequests]) -> None:
    runs = [asking.answers for asking in asked]
    told = [[(answer, answer.json()) for answer in run] for run in runs]
    refused = sum(answer.status != 200 for run in runs for answer in run)
    print(f"{len(runs)} runs, {refused} answers other than 200; milliseconds since a request was due:")
    for state in STATES:
        took = [answer.took_ms for run in told for answer, body in run if body["state"] == state]
        print(f"  {state:<11}{in_words(took)}")
    print(f"  {'all':<11}{in_words([answer.took_ms for run in runs for answer in run])}")
    woken = in_words([late_ms for asking in asked for late_ms in asking.late_ms])
    print(f"  {'sleeper':<11}{woken.replace('requests', 'times')}")
    for number, run in enumerate(told, start=1):
        print(f"  build {number}: {_progress((answer, body) for answer, body in run)}")


def _progress(run: Iterable[tuple[Answered, dict[str, Any]]]) -> str:
    """How the step line moved during the build of one run."""
    seen = [
        (answer.done, (body["step"], body["current"])) for answer, body in run if body["state"] == "building"
    ]
    if not seen:
        return "no answer told of it"
    changes = [seen[0][0], *(at for (_, old), (at, new) in pairwise(seen) if old != new), seen[-1][0]]
    still_s = max(later - earlier for earlier, later in pairwise(changes))
    places = {place for _, place in seen}
    n_steps = len({step for step, _ in places})
    return (
        f"{seen[-1][0] - seen[0][0]:.2f} s, {len(places)} places in {n_steps} steps, "
        f"at most {1000 * still_s:.0f} ms without a new one"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--labelled", type=int, default=20_000, help="40 %% more items have no label")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rate", type=float, default=100.0, help="requests a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        make_project(Path(name), options.labelled)
        server = ServerProcess(load(Path(name) / "config.yaml"))
        try:
            server.wait_ready()
            print(f"{options.labelled:,} labelled items, {options.rate:g} requests a second")
            tell(follow(server, options.runs, options.rate))
        finally:
            server.close()


if __name__ == "__main__":
    main()
