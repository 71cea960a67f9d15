"""Finishing a run: its scores count, and what illustrates them cannot fail it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from potato_ray.actors import tasks
from potato_ray.job.folder import JobFolder

TRUTH = {"a": "good", "b": "bad", "c": "good", "d": "bad"}
SCHEME = {"name": "tone", "annotation_type": "radio", "kind": "nominal", "labels": ["bad", "good"]}


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    """The folder of a run whose worker has ended; every second answer is wrong."""
    job = JobFolder(tmp_path / "r")
    job.bundle.mkdir(parents=True)
    job.artifacts.mkdir()
    labelled = [{"instance_id": i, "text": i, "targets": {"tone": label}} for i, label in TRUTH.items()]
    for split in ("train", "val", "test", "unlabeled"):
        write_lines(job.bundle / f"{split}.jsonl", labelled if split in ("train", "val") else [])
    body = {"v": 1, "schemas": [SCHEME], "labels": {"tone": ["bad", "good"]}, "stats": {}}
    (job.bundle / "manifest.json").write_text(json.dumps(body))
    said = [
        {"instance_id": i, "schema_name": "tone", "payload": {"label": "good"}, "confidence": 0.9}
        for i in TRUTH
    ]
    write_lines(job.predictions, said)
    write_lines(job.answers, [{"instance_id": i, "answers": {"ann": TRUTH[i]}} for i in TRUTH])
    metrics = [{"event": "metric", "name": "loss", "step": step, "value": 1.0} for step in (1, 2)]
    write_lines(job.events, metrics)
    return job


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def finish(job: JobFolder) -> dict[str, Any]:
    arguments = (str(job.path), "sklearn-text", 0, None, True, "report")
    answer: dict[str, Any] = tasks.finish_run._function(*arguments)
    return answer


def test_a_finished_run_has_its_scores_and_what_illustrates_them(job: JobFolder) -> None:
    finished = finish(job)
    assert finished["scores"]["headline"]["split"] == "val"
    [warning] = finished["warnings"]
    assert warning.startswith("The held-out score rests on 4 items")
    assert json.loads(job.scores.read_text()) == finished["scores"]
    assert json.loads(job.mistakes.read_text())
    names = {path.name for path in job.artifacts.iterdir()}
    assert {"val_confusion_matrix.svg", "curves.svg"} < names


@pytest.mark.parametrize(
    ("failing", "named"),
    [
        ("potato_ray.scoring.report.write_mistakes", "list of mistakes"),
        ("potato_ray.scoring.report.write_pictures", "pictures"),
        ("potato_ray.scoring.curves.curves_in", "training curves"),
    ],
)
def test_a_picture_that_fails_is_a_warning_of_a_run_that_succeeds(
    job: JobFolder, monkeypatch: pytest.MonkeyPatch, failing: str, named: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failing, fail)
    _, warning = finish(job)["warnings"]
    assert warning.startswith(f"The run's {named} could not be written: OSError: [Errno 28] No space left")
