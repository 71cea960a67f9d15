#!/usr/bin/env python3
"""How building a bundle scales: time and peak memory of N and of 2N items, alone and within a real run.

    python tests/bench/bundle_scale.py --items 100000 --answers 3 --repeats 3

Builds of both sizes take turns, each in a process of its own; a ratio of about 2 means linear. Then a real
server builds the larger one for a run, and the memory is that of the very process that builds (a Ray worker),
beside those of the controller and the server, which get the list of the items.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from server_process import API, ServerProcess

from potato_ray.bundle.builder import build
from potato_ray.bundle.request import BundleRequest
from potato_ray.config import load

WORDS = ("kettle", "paint", "silence", "after", "the", "microwave", "rubs", "off", "every", "finger")
LABELS = ("good", "mixed", "bad")
TIMEOUT_S = 240.0
CONFIG = """
annotation_task_name: Scale
task_dir: "."
data_files: [items.jsonl]
item_properties: {id_key: id, text_key: text}
output_annotation_dir: out
annotation_schemes:
  - {annotation_type: radio, name: mood, description: Which mood, labels: [good, mixed, bad]}
model_training: {enabled: true}
"""


def make_project(folder: Path, n_items: int, n_answers: int) -> None:
    """A project of `n_items`, each with `n_answers` answers by that many annotators of ten."""
    draw = random.Random(0)
    (folder / "config.yaml").write_text(CONFIG)
    with (folder / "items.jsonl").open("w") as handle:
        for number in range(n_items):
            text = " ".join(draw.choices(WORDS, k=60))
            handle.write(json.dumps({"id": f"item-{number:07d}", "text": text}) + "\n")
    stored: dict[str, dict[str, object]] = {f"ann-{number}": {} for number in range(10)}
    for number in range(n_items):
        truth = draw.choice(LABELS)
        for user in draw.sample(sorted(stored), n_answers):
            label = truth if draw.random() < 0.8 else draw.choice(LABELS)
            stored[user][f"item-{number:07d}"] = [[{"schema": "mood", "name": label}, label]]
    for user, answers in stored.items():
        (folder / "out" / user).mkdir(parents=True)
        state = {"user_id": user, "instance_id_to_label_to_value": answers}
        (folder / "out" / user / "user_state.json").write_text(json.dumps(state, indent=2))


def measure(folder: Path) -> None:
    """Build the bundle in this process and print what it took."""
    request = BundleRequest.from_config(load(folder / "config.yaml"), ("mood",))
    steps: dict[str, float] = {}
    begun = time.perf_counter()

    def note(step: str, done: int, total: int) -> None:
        steps.setdefault(step, time.perf_counter() - begun)

    build(request, folder / "bundle", progress=note, answers=folder / "answers.jsonl")
    seconds = time.perf_counter() - begun
    begins = [*steps.items(), ("end", seconds)]
    body = {
        "seconds": seconds,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "steps": {name: later - begin for (name, begin), (_, later) in pairwise(begins)},
    }
    print(json.dumps(body))


def alone(folder: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(folder)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=TIMEOUT_S)
    return dict(json.loads(done.stdout))


def in_turns(folders: dict[int, Path], repeats: int) -> None:
    """Build each project `repeats` times, in turns; print the medians, and their ratio."""
    took: dict[int, list[dict[str, Any]]] = {size: [] for size in folders}
    for _ in range(repeats):
        for size, folder in folders.items():
            took[size].append(alone(folder))
    medians = {}
    for size, bodies in took.items():
        medians[size] = statistics.median(body["seconds"] for body in bodies)
        peak_mb = max(body["peak_mb"] for body in bodies)
        print(f"{size:,} items: median of {repeats} {medians[size]:.2f} s, peak {peak_mb:.0f} MiB")
        for name in bodies[0]["steps"]:
            print(f"    {statistics.median(body['steps'][name] for body in bodies):6.2f} s  {name}")
    once, twice = sorted(medians)
    print(f"{twice / once:.0f} times the items: {medians[twice] / medians[once]:.2f} times the time")


def in_a_run(folder: Path) -> None:
    """Let a server build the bundle for a run; print what its processes have held at most by then."""
    server = ServerProcess(load(folder / "config.yaml"))
    try:
        server.wait_ready()
        with httpx.Client(base_url=server.url, headers=server.headers(), trust_env=False, timeout=60) as http:
            peaks = _peaks_of_a_build(server, http)
    finally:
        server.close()
    for name, peak_mb in sorted(peaks.items(), key=lambda each: -each[1]):
        print(f"    {peak_mb:7.0f} MiB  {name}")


def _peaks_of_a_build(server: ServerProcess, http: httpx.Client) -> dict[str, float]:
    before = {pid: _peak(pid)[1] for pid in server.processes()}
    body = {"trainer": "sklearn-text", "schemas": ["mood"]}
    run_id = http.post(f"{API}/runs", json=body).raise_for_status().json()["run_id"]
    began, peaks = time.monotonic(), {}
    while (state := http.get(f"{API}/runs/{run_id}").json()["state"]) in ("queued", "building"):
        if time.monotonic() - began > TIMEOUT_S:
            raise TimeoutError(f"the bundle was not built in {TIMEOUT_S:.0f} s")
        for pid in server.processes():
            name, peak_mb = _peak(pid)
            if re.match(r"ray::(build_bundle|RunController)|.*start .*config.yaml", name):
                peaks[f"{name[:40]} ({before.get(pid, 0):.0f} before)"] = peak_mb
        time.sleep(0.05)
    print(f"in a run: {state} after {time.monotonic() - began:.1f} s; the most that each process has held:")
    http.post(f"{API}/runs/{run_id}/cancel")
    return peaks


def _peak(pid: int) -> tuple[str, float]:
    """(its command, the most resident memory that it has had, in MiB); nothing of one that has ended."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return "", 0.0
    return command.strip(), int(found[1]) / 1024 if found else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        folders = {size: Path(name) / str(size) for size in (options.items, 2 * options.items)}
        for size, folder in folders.items():
            folder.mkdir()
            make_project(folder, size, options.answers)
        in_turns(folders, options.repeats)
        in_a_run(folders[2 * options.items])


if __name__ == "__main__":
    main()
