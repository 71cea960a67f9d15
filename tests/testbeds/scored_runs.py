"""Finished runs with everything that a page shows, scored by the real scoring, with nothing trained."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from run_history import begin, folder_of, move, wait

from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State
from potato_ray.scoring.curves import curves_in, write_curves
from potato_ray.scoring.measures import ANSWER_KEYS
from potato_ray.scoring.report import score_run, write_mistakes, write_pictures

WRITEBACK = {
    "n_read": 40,
    "n_written": 28,
    "n_skipped_low_confidence": 12,
    "warnings": [],
    "summary": "Published 28 of 40 predictions; 12 below min_confidence 0.6",
}
WARNINGS = [
    "annotation_output/dana/user_state.json (annotator 'dana') could not be read and was left out: it ends "
    "in the middle. The file was not changed; restore it from a backup and run again.",
    "3 of 90 resolved items (3%) are ties, which a hash of the item broke: 'i-1', 'i-2', 'i-3'.",
    "2 held-out items moved into train (2 corrected by a reviewer). The score is computed without "
    "them, and cannot be compared directly with those of earlier runs.",
]


def long_labels(count: int) -> list[str]:
    """Labels of 60 characters, without a blank in every third."""
    names = [f"{n:02d} the complaint is about delivery that came late or never " for n in range(count)]
    return [(name.replace(" ", "_") if n % 3 == 0 else name)[:60].strip() for n, name in enumerate(names)]


def scored(
    served: Any,
    kind: str = "nominal",
    targets: Sequence[Any] = ("positive", "negative"),
    *,
    n_items: int = 90,
    wrong_every: int = 4,
    annotation_type: str = "radio",
    steps: int = 30,
    **fields: Any,
) -> Run:
    """A success on the scheme `sentiment`, whose answers go round `targets`; every so many are wrong."""
    run = wait(served, NewRun("sklearn-text", ("sentiment",), (kind,), {"min_instances": 5}))
    begin(served, run.run_id)
    move(served, run.run_id, State.RUNNING, device="cpu", host="lab-server", n_train=n_items)
    folder = folder_of(served, run.run_id)
    events = _events(steps)
    served.controller.write(served.controller.registry.record_events, run.run_id, 1, 0, events)
    scores = _scores(folder, kind, annotation_type, targets, n_items, wrong_every, events)
    move(served, run.run_id, State.EVALUATING, State.FINISHING)
    rows = [
        json.loads(line) for line in (folder / "artifacts" / "predictions.jsonl").read_text().splitlines()
    ]
    served.controller.write(served.controller.registry.store_predictions, run.run_id, 1, rows)
    given = {"scores": scores, "headline": scores["headline"], "writeback": WRITEBACK, **fields}
    return move(served, run.run_id, State.SUCCESS, n_val=n_items // 2, n_test=n_items // 2, **given)


def _events(steps: int) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = [
        {"event": "status", "phase": "fitting", "step": "fitting", "t": 1795900000.0}
    ]
    said += [{"event": "log", "level": "warning", "message": each, "t": 1795900001.0} for each in WARNINGS]
    for step in range(steps):
        for name, value in (("train_loss", 2.0 / (step + 2)), ("train_accuracy", step / steps)):
            said.append(
                {"event": "metric", "name": name, "value": value, "step": step, "t": 1795900002.0 + step}
            )
    return said


def _scores(
    folder: Path,
    kind: str,
    annotation_type: str,
    targets: Sequence[Any],
    n_items: int,
    wrong_every: int,
    events: list[dict[str, Any]],
) -> dict[str, Any]:
    bundle, artifacts = folder / "bundle", folder / "artifacts"
    bundle.mkdir(parents=True)
    artifacts.mkdir()
    ids = [f"item-{number:03d}" for number in range(n_items)]
    truth = {item: targets[number % len(targets)] for number, item in enumerate(ids)}
    _write_bundle(bundle, kind, annotation_type, truth)
    said = {
        item: targets[(number + (wrong_every > 0 and number % wrong_every == 0)) % len(targets)]
        for number, item in enumerate(ids)
    }
    _write_lines(
        artifacts / "predictions.jsonl",
        [
            {
                "instance_id": item,
                "schema_name": "sentiment",
                "payload": {ANSWER_KEYS[kind]: answer},
                "confidence": None if kind == "continuous" else 0.5 + 0.49 * (number % 50) / 50,
            }
            for number, (item, answer) in enumerate(said.items())
        ],
    )
    _write_lines(folder / "events.jsonl", events)
    _write_lines(
        folder / "answers.jsonl",
        [
            {"instance_id": item, "answers": {"annotator_a": truth[item], "annotator_b": said[item]}}
            for item in ids
        ],
    )
    scores = score_run(bundle, artifacts / "predictions.jsonl", selects_on_val=False)
    write_mistakes(scores, bundle, folder / "answers.jsonl", folder / "mistakes.json")
    write_pictures(scores, artifacts)
    write_curves(curves_in(folder / "events.jsonl"), artifacts)
    (artifacts / "model_card.json").write_text("{}")
    return json.loads(json.dumps(scores.as_json()))


def _write_bundle(bundle: Path, kind: str, annotation_type: str, truth: Mapping[str, Any]) -> None:
    ids = list(truth)
    parts = {"train": ids, "val": ids[: len(ids) // 2], "test": ids[len(ids) // 2 :], "unlabeled": []}
    for split, items in parts.items():
        rows = [
            {
                "instance_id": item,
                "text": f"A note on {item}. It came late, and nobody said why. Still, it works.",
                "targets": {"sentiment": truth[item]},
            }
            for item in items
        ]
        _write_lines(bundle / f"{split}.jsonl", rows)
    labels = sorted({each for each in truth.values() if isinstance(each, str)})
    scheme = {"name": "sentiment", "annotation_type": annotation_type, "kind": kind, "labels": labels}
    (bundle / "manifest.json").write_text(json.dumps({"v": 1, "schemas": [scheme], "stats": {}}))


def _write_lines(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
