"""Job folders for tests: a small bundle and the spec of a `Playing` trainer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from potato_ray.backends.base import Job
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.trainers.base import SchemeSpec

TRAINER = "playing_trainer:Playing"
SCHEME = SchemeSpec("tone", "radio", "nominal", labels=("bad", "good"))
LIMITS = Limits(grace_s=2.0, lost_after_s=30.0, device="cpu", gpu_uuids=())
N_ROWS = {"train": 12, "val": 4, "test": 4, "unlabeled": 2}


def make_job(folder: Path, play: str = "succeed", **limits: Any) -> Job:
    """A job that is ready to execute; `limits` are fields of Limits."""
    job = JobFolder(folder)
    job.bundle.mkdir(parents=True)
    job.artifacts.mkdir()
    for split, n in N_ROWS.items():
        lines = (json.dumps(_row(split, number)) for number in range(n))
        (job.bundle / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    write_json(job.bundle / "labels.json", {"tone": list(SCHEME.labels)})
    write_json(job.bundle / "manifest.json", _manifest())
    spec = JobSpec(
        run_id=folder.name,
        attempt=1,
        trainer=TRAINER,
        schemes=(SCHEME,),
        params={"play": play, "min_instances": 10},
        limits=replace(LIMITS, **limits),
        env={"PYTHONPATH": str(Path(__file__).parent)},
    )
    write_json(job.spec, spec.as_json())
    return Job(run_id=folder.name, attempt=1, folder=folder)


def _row(split: str, number: int) -> dict[str, Any]:
    targets = {} if split == "unlabeled" else {"tone": SCHEME.labels[number % 2]}
    return {"instance_id": f"{split}-{number}", "text": f"text {number}", "targets": targets}


def _manifest() -> dict[str, Any]:
    splits = {
        name: {"path": f"{name}.jsonl", "format": "jsonl", "n": n, "n_items": n} for name, n in N_ROWS.items()
    }
    return {
        "v": 1,
        "schemas": [
            {"name": "tone", "annotation_type": "radio", "kind": "nominal", "labels": list(SCHEME.labels)}
        ],
        "splits": splits,
        "labels": {"tone": list(SCHEME.labels)},
        "media_dir": "media",
        "modality": "text",
        "stats": {},
        "digest": "0" * 64,
    }
