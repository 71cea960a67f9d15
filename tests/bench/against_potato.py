#!/usr/bin/env python3
"""How long a run takes beside Potato's own training: same project, same machine, pairs in turn.

    python tests/bench/against_potato.py --sizes 150 2000 20000 --pairs 5
    python tests/bench/against_potato.py --project FOLDER --schema sentiment

Both servers are up. From the POST of a start to `success` with the write-back done, TF-IDF with logistic
regression and calibration on the same items, a prediction for every item that is not in train. Before
each start both have been idle for a few seconds, so that the spare worker is ready. Beside the times
stand the scores of both models on their held-out items. Needs Potato (`./run test` installs it).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1] / "testbeds"))

from potato_server import PotatoServer, potato_command
from server_process import API, ServerProcess
from sklearn.metrics import accuracy_score, f1_score

from potato_ray.config import load

RUN_TIMEOUT_S = 300.0
POLL_S = 0.02
SLOW_POLL_S = 0.1
"""After the first second: what asks must not become a part of what is measured, on either side."""
SETTLE_S = 4.0
UNLABELLED = 0.4
"""Items without labels beside each labelled one."""
KEY = "the-key-of-the-benchmark"
LABELS = ("positive", "negative")
CONFIG = """
annotation_task_name: Speed
task_dir: "."
data_files: [items.json]
item_properties: {{id_key: id, text_key: text}}
output_annotation_dir: annotation_output
admin_api_key: {key}
user_config: {{allow_all_users: true}}
annotation_schemes:
  - {{annotation_type: radio, name: sentiment, description: Which tone, labels: [positive, negative]}}
model_training:
  enabled: true
  writeback: {{schemas: [sentiment], include_unlabeled: true}}
"""


def make_project(folder: Path, labelled: int) -> None:
    """Texts of 8 to 40 words whose words lean to one label, three annotators of ten an item, 15 % wrong."""
    draw = random.Random(labelled)
    words = [f"w{number}" for number in range(6000)]
    lean = {word: draw.random() for word in words}
    items, stored = [], {f"ann-{number}": {} for number in range(10)}
    for number in range(round(labelled * (1 + UNLABELLED))):
        text = draw.choices(
            words, weights=[1 / (rank + 5) for rank in range(len(words))], k=draw.randint(8, 40)
        )
        items.append({"id": f"item-{number:06d}", "text": " ".join(text)})
        if number >= labelled:
            continue
        truth = LABELS[statistics.fmean(lean[word] for word in text) < 0.5]
        for user in draw.sample(sorted(stored), 3):
            label = truth if draw.random() < 0.85 else draw.choice(LABELS)
            stored[user][items[-1]["id"]] = [[{"schema": "sentiment", "name": label}, label]]
    (folder / "items.json").write_text(json.dumps(items))
    (folder / "config.yaml").write_text(CONFIG.format(key=KEY))
    for user, answers in stored.items():
        (folder / "annotation_output" / user).mkdir(parents=True)
        state = {
            "user_id": user,
            "instance_id_ordering": [each["id"] for each in items],
            "current_instance_index": 0,
            "current_phase_and_page": ["annotation", None],
            "completed_phase_and_pages": [],
            "max_assignments": len(items),
            "instance_id_to_behavioral_data": {},
            "instance_id_to_label_to_value": answers,
            "instance_id_to_span_to_value": {},
            "phase_to_page_to_label_to_value": {},
            "phase_to_page_to_span_to_value": {},
        }
        (folder / "annotation_output" / user / "user_state.json").write_text(json.dumps(state))


class Side:
    """One of the two servers: starts a run, and says when its write-back is done."""

    def __init__(self, name: str, url: str, folder: Path, schema: str) -> None:
        self.name = name
        self.folder = folder
        self._schema = schema
        self._http = httpx.Client(base_url=url, headers={"X-API-Key": KEY}, timeout=60.0, trust_env=False)

    def run(self) -> tuple[float, str]:
        """(seconds from the POST to the write-back's end, run id)."""
        body = {"trainer": "sklearn-text", "schemas": [self._schema], "params": {}}
        began = time.perf_counter()
        answer = self._http.post(f"{API}/runs", json=body)
        answer.raise_for_status()
        run_id = str(answer.json()["run_id"])
        while not self._done(run_id):
            if time.perf_counter() - began > RUN_TIMEOUT_S:
                raise TimeoutError(f"{self.name}: {run_id} did not end in {RUN_TIMEOUT_S:.0f} s")
            time.sleep(POLL_S if time.perf_counter() - began < 1.0 else SLOW_POLL_S)
        return time.perf_counter() - began, run_id

    def _done(self, run_id: str) -> bool:
        if self.name == "potato":
            status = self._http.get(f"{API}/status").json()
            if status["state"] in ("error", "cancelled"):
                raise RuntimeError(f"potato: {status}")
            return bool((status.get("writeback") or {}).get("run_id") == run_id)
        run = self._http.get(f"{API}/runs/{run_id}").json()
        if run["state"] in ("error", "cancelled", "interrupted"):
            raise RuntimeError(f"ours: {run['error']} {run['error_evidence']}")
        return bool(run["state"] == "success")

    def scores(self, run_id: str) -> dict[str, float]:
        """Accuracy and macro F1 on val and test together, against the labels of the bundle."""
        run = self.folder / "annotation_output" / "training" / "runs" / run_id
        truth = {}
        for split in ("val", "test"):
            for line in (run / "bundle" / f"{split}.jsonl").read_text().splitlines():
                row = json.loads(line)
                truth[row["instance_id"]] = row["targets"][self._schema]
        said = {}
        for line in (run / "artifacts" / "predictions.jsonl").read_text().splitlines():
            row = json.loads(line)
            said[row["instance_id"]] = row["payload"].get("label", "")
        pairs = [(label, said.get(item, "")) for item, label in truth.items()]
        human, machine = [first for first, _ in pairs], [second for _, second in pairs]
        return {
            "n": len(pairs),
            "n_predictions": len(said),
            "accuracy": float(accuracy_score(human, machine)),
            "macro_f1": float(f1_score(human, machine, labels=sorted(set(human)), average="macro")),
        }


@contextlib.contextmanager
def both(project: Callable[[Path], None], schema: str) -> Iterator[tuple[Side, Side]]:
    """Both servers, each on a copy of its own."""
    command = potato_command()
    if command is None:
        sys.exit("Potato is not installed; ./run test does it, or set POTATO_RAY_POTATO.")
    with tempfile.TemporaryDirectory(prefix="prb-", dir="/tmp") as name:
        folders = [Path(name) / each for each in ("ours", "potato")]
        for folder in folders:
            folder.mkdir()
            project(folder)
        server = ServerProcess(load(folders[0] / "config.yaml")).wait_ready()
        try:
            with PotatoServer(command, folders[1] / "config.yaml", KEY) as potato:
                yield (
                    Side("ours", server.url, folders[0], schema),
                    Side("potato", potato.url, folders[1], schema),
                )
        finally:
            server.close()


def measure(title: str, project: Callable[[Path], None], schema: str, pairs: int) -> dict[str, Any]:
    times: dict[str, list[float]] = {"ours": [], "potato": []}
    last: dict[str, dict[str, float]] = {}
    with both(project, schema) as sides:
        first = {side.name: side.run()[0] for side in sides}
        for number in range(pairs):
            for side in sides if number % 2 == 0 else sides[::-1]:
                time.sleep(SETTLE_S)
                seconds, run_id = side.run()
                times[side.name].append(seconds)
                last[side.name] = side.scores(run_id)
        time.sleep(SETTLE_S)
        back_to_back = {side.name: [side.run()[0], side.run()[0]] for side in sides}
    ratios = [theirs / ours for ours, theirs in zip(times["ours"], times["potato"], strict=True)]
    figures = {
        "size": title,
        "ours_s": [round(each, 3) for each in times["ours"]],
        "potato_s": [round(each, 3) for each in times["potato"]],
        "ratio_of_medians": statistics.median(times["potato"]) / statistics.median(times["ours"]),
        "ratios": [round(each, 2) for each in ratios],
        "first_run_s": first,
        "back_to_back_s": back_to_back,
        "scores": last,
    }
    print(json.dumps(figures, indent=1), flush=True)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="*", default=[150, 2000, 20000], help="labelled items")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument(
        "--project", type=Path, help="a project with admin_api_key set to the benchmark's key"
    )
    parser.add_argument("--schema", default="sentiment")
    args = parser.parse_args()
    if args.project:
        copy = lambda folder: shutil.copytree(args.project, folder, dirs_exist_ok=True)  # noqa: E731
        measure(str(args.project), copy, args.schema, args.pairs)
        return
    for size in args.sizes:
        measure(str(size), lambda folder, size=size: make_project(folder, size), args.schema, args.pairs)


if __name__ == "__main__":
    main()
