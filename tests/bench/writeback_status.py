#!/usr/bin/env python3
"""How fast the server answers while a run with very many predictions is scored and written back.

    python tests/bench/writeback_status.py --predictions 200000 --rate 50

A real server, one real run of which nearly all items have no label, and clients that send at a steady rate,
whatever the answer before took: GET status from the start to the end; POST of a start while the run is
finishing, first into the queue and then, once it is full, to be refused by the same check. Each answer counts
for the state and step that the status last told of.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from against_potato import make_project
from server_process import API, ServerProcess
from steady_requests import Answered, SteadyRequests, in_words

from potato_ray.config import load

LABELLED = 2_000
RUN_TIMEOUT_S = 240.0
START = {"trainer": "sklearn-text", "schemas": ["sentiment"]}


def make_wide_project(folder: Path, n_predictions: int) -> None:
    """A few labelled items, and as many without a label as make `n_predictions` and some more."""
    make_project(folder, LABELLED)
    path = folder / "items.json"
    items = json.loads(path.read_text())
    draw = random.Random(0)
    words = sorted({word for item in items for word in item["text"].split()})
    for number in range(len(items), n_predictions + LABELLED):
        text = " ".join(draw.choices(words, k=draw.randint(8, 40)))
        items.append({"id": f"item-{number:06d}", "text": text})
    path.write_text(json.dumps(items))


def train(server: ServerProcess, rate_hz: float, starts_hz: float) -> tuple[list[Answered], list[Answered]]:
    """Train once; the answers to GET status, and those to the starts that were posted while it finished."""
    status = SteadyRequests(server.url, f"{API}/status", server.headers(), rate_hz)
    starts = SteadyRequests(
        server.url, f"{API}/runs", server.headers(), starts_hz, "POST", json.dumps(START).encode()
    )
    with status:
        answer = httpx.post(server.url + f"{API}/runs", json=START, headers=server.headers(), timeout=60)
        run_id = answer.raise_for_status().json()["run_id"]
        _wait(status, lambda body: body["state"] == "finishing")
        with starts:
            _wait(status, lambda body: body["last"] is not None)
    _tell_of(server, run_id)
    return status.answers, starts.answers


def _wait(status: SteadyRequests, true: Callable[[dict[str, Any]], bool]) -> None:
    """Until the newest status is like that."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while not (status.answers and true(status.answers[-1].json())):
        if time.monotonic() > deadline or status.failure:
            raise TimeoutError(f"the run did not come to that; the last status: {status.answers[-1:]}")
        time.sleep(0.05)


def _tell_of(server: ServerProcess, run_id: str) -> None:
    run = httpx.get(server.url + f"{API}/runs/{run_id}", headers=server.headers(), timeout=60).json()
    print(
        f"{run['status']} after {run['finished_at'] - run['begun_at']:.1f} s; {run['writeback']['summary']}"
    )


def tell(status: Sequence[Answered], starts: Sequence[Answered]) -> None:
    """Milliseconds since a request was due, by state and step of the run, and how long each took the run."""
    groups: dict[str, list[Answered]] = defaultdict(list)
    for answer in status:
        body = answer.json()
        step = f": {body['step']}" if body["state"] == "finishing" else ""
        groups[f"{body['state']}{step}"].append(answer)
    for name, answers in groups.items():
        took = in_words([answer.took_ms for answer in answers])
        print(f"  GET status, {name:<42} {answers[-1].done - answers[0].due:5.1f} s, {took}")
    for told, statuses in (("accepted", (200, 202)), ("refused: the queue is full", (429,))):
        took = in_words([answer.took_ms for answer in starts if answer.status in statuses])
        print(f"  POST start, finishing: {told:<38} {took}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--predictions", type=int, default=200_000)
    parser.add_argument("--rate", type=float, default=50.0, help="GET status, requests a second")
    parser.add_argument("--starts", type=float, default=5.0, help="POST of a start, requests a second")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        make_wide_project(Path(name), options.predictions)
        server = ServerProcess(load(Path(name) / "config.yaml"))
        try:
            server.wait_ready()
            print(f"{options.rate:g} requests a second, and {options.starts:g} starts while it finishes")
            tell(*train(server, options.rate, options.starts))
        finally:
            server.close()


if __name__ == "__main__":
    main()
