#!/usr/bin/env python3
"""How building a bundle scales: time and peak memory of N and of 2N items, each in a process of its own.

    python tests/bench/bundle_scale.py --items 100000 --answers 3

Prints one line per size, and the ratios: about 2 means linear. Not a test: it takes minutes.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from potato_ray.bundle.builder import build
from potato_ray.bundle.request import BundleRequest
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.schemes import schemes_of

WORDS = ("kettle", "paint", "silence", "after", "the", "microwave", "rubs", "off", "every", "finger")
SCHEME = {"annotation_type": "radio", "name": "mood", "labels": ["good", "mixed", "bad"]}


def make_project(folder: Path, n_items: int, n_answers: int) -> None:
    """A project of `n_items`, each with `n_answers` answers by that many annotators of ten."""
    draw = random.Random(0)
    with (folder / "items.jsonl").open("w") as handle:
        for number in range(n_items):
            text = " ".join(draw.choices(WORDS, k=60))
            handle.write(json.dumps({"id": f"item-{number:07d}", "text": text}) + "\n")
    stored: dict[str, dict[str, object]] = {f"ann-{number}": {} for number in range(10)}
    for number in range(n_items):
        truth = draw.choice(SCHEME["labels"])
        for user in draw.sample(sorted(stored), n_answers):
            label = truth if draw.random() < 0.8 else draw.choice(SCHEME["labels"])
            stored[user][f"item-{number:07d}"] = [[{"schema": "mood", "name": label}, label]]
    for user, answers in stored.items():
        (folder / "out" / user).mkdir(parents=True)
        state = {"user_id": user, "instance_id_to_label_to_value": answers}
        (folder / "out" / user / "user_state.json").write_text(json.dumps(state, indent=2))


def measure(folder: Path) -> None:
    """Build the bundle in this process and print what it took."""
    paths = ProjectPaths(folder, (folder / "items.jsonl",), folder / "out")
    request = BundleRequest(paths, tuple(schemes_of([SCHEME])), ("mood",))
    steps: dict[str, float] = {}
    begun = time.perf_counter()

    def note(step: str, done: int, total: int) -> None:
        steps.setdefault(step, time.perf_counter() - begun)

    build(request, folder / "bundle", progress=note)
    body = {
        "seconds": time.perf_counter() - begun,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "steps": steps,
    }
    print(json.dumps(body))


def run(n_items: int, n_answers: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        make_project(Path(name), n_items, n_answers)
        command = [sys.executable, __file__, "--measure", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
    body: dict[str, float] = json.loads(done.stdout)
    took = f"{n_items} items: {body['seconds']:.2f} s, peak {body['peak_mb']:.0f} MB"
    print(f"{took}; steps begin at {body['steps']}")
    return body


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--answers", type=int, default=3)
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    once, twice = run(options.items, options.answers), run(2 * options.items, options.answers)
    print(f"twice the items: {twice['seconds'] / once['seconds']:.2f} times the time, ", end="")
    print(f"{twice['peak_mb'] / once['peak_mb']:.2f} times the memory")


if __name__ == "__main__":
    main()
