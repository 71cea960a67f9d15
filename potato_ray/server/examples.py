"""Examples of answers for the OpenAPI document; a test holds them to their models."""

from __future__ import annotations

from typing import Any

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

RUN_ID = "20260301T093000-1f2e3d"

_HEADLINE = {
    "metric": "macro_f1",
    "split": "val",
    "value": 0.81,
    "n_items": 27,
    "lower_is_better": False,
    "low": 0.68,
    "high": 0.92,
    "interval_note": "",
    "baseline": 0.22,
    "previous": 0.78,
    "comparable": True,
}
_METRICS = {"val_macro_f1": 0.81, "val_accuracy": 0.83, "val_coverage": 1.0}

_RUN = Run(
    run_id=RUN_ID,
    project="reviews",
    trainer="sklearn-text",
    schemas=("sentiment",),
    kinds=("nominal",),
    params={"min_instances": 20},
    backend="local",
    state=State.SUCCESS,
    attempt=1,
    trigger="api",
    created_at=1772357400.0,
    begun_at=1772357400.1,
    started_at=1772357401.0,
    finished_at=1772357405.5,
    headline=_HEADLINE,
    scores={"scheme": "sentiment", "kind": "nominal", "metrics": _METRICS, "headline": _HEADLINE},
    n_train=126,
    n_val=27,
    n_test=27,
    artifact_dir=f"annotation_output/training/runs/{RUN_ID}",
    device="cpu",
    beats_baseline=True,
)

RUN: dict[str, Any] = {
    **_RUN.as_json(),
    "previous": {"run_id": "20260227T160210-0a1b2c", "metrics": {"val_macro_f1": 0.78}},
    "review": None,
}
RUNS: dict[str, Any] = {
    "runs": [{name: RUN[name] for name in RUN if name not in ("scores", "result", "previous", "review")}]
}

EVENT: dict[str, Any] = {
    "id": 7,
    "attempt": 1,
    "source": "worker",
    "t": 1772357401.25,
    "event": "status",
    "phase": "fitting",
    "step": "fitting on 126 items",
    "line": "2026-03-01T09:30:01Z fitting on 126 items",
}

ARTIFACTS: dict[str, Any] = {
    "run_id": RUN_ID,
    "artifacts": [{"path": "model.skops", "bytes": 48211, "modified": 1772357404.5}],
}

_REMOTE_RUN = f"/home/ada/.cache/potato-training/runs/{RUN_ID}.1"
REMOTE_FILE: dict[str, Any] = {
    "path": "model/weights.bin",
    "bytes": 5_368_709_120,
    "state": "fetching",
    "here_bytes": 734_003_200,
    "problem": None,
}
REMOTE_FILES: dict[str, Any] = {
    "run_id": RUN_ID,
    "host": "gpu.example.org",
    "folder": f"{_REMOTE_RUN}/jobs/{RUN_ID}.1/artifacts",
    "files": [REMOTE_FILE],
}
REMOTE_FILES_REMOVED: dict[str, Any] = {
    "run_id": RUN_ID,
    "host": "gpu.example.org",
    "removed": _REMOTE_RUN,
}

TRAINERS: dict[str, Any] = {
    "trainers": [
        {
            "name": "sklearn-text",
            "description": "Scikit-learn on features of the text.",
            "kinds": ["nominal", "multilabel"],
            "annotation_types": None,
            "modalities": ["text"],
            "params": [
                {
                    "name": "min_instances",
                    "type": "int",
                    "default": 10,
                    "configured": 20,
                    "help": "The least number of labelled items in the train split.",
                    "minimum": 1,
                    "maximum": None,
                    "choices": [],
                    "optional": False,
                    "advanced": False,
                    "packages": [],
                    "members": [],
                }
            ],
            "params_schema": {
                "type": "object",
                "additionalProperties": False,
                "properties": {"min_instances": {"type": "integer", "default": 10, "minimum": 1}},
            },
            "defaults": {"min_instances": 10},
            "configured": {"min_instances": 20},
            "licence": {
                "spdx": "BSD-3-Clause",
                "url": "https://scikit-learn.org",
                "needs_confirmation": False,
                "commercial_use": True,
            },
            "requires": [{"module": "sklearn", "package": "scikit-learn"}],
            "available": True,
            "reason": "",
            "install_hint": "pip install scikit-learn",
            "uses_gpu": False,
            "local_only": False,
            "selects_on_val": False,
        }
    ],
    "broken": [{"name": "my-trainer", "reason": "Trainer 'my-trainer' could not be imported: ImportError"}],
}

SCHEMAS: dict[str, Any] = {
    "schemas": [
        {
            "name": "sentiment",
            "annotation_type": "radio",
            "description": "How does the writer feel about it?",
            "kind": "nominal",
            "labels": ["positive", "neutral", "negative"],
            "trainers": ["sklearn-text"],
            "why_not": "",
        }
    ]
}

BACKENDS: dict[str, Any] = {
    "backends": [
        {
            "name": "gpu-server",
            "type": "ssh",
            "host": "gpu.example.org",
            "description": "two A100",
            "text": "gpu-server (ssh to gpu.example.org): two A100",
            "default": True,
            "runnable": True,
            "why_not": "",
            "token": None,
            "agents": [],
        },
        {
            "name": "workstation",
            "type": "agent",
            "host": None,
            "description": "under the desk",
            "text": "workstation (agent): under the desk",
            "default": False,
            "runnable": True,
            "why_not": "",
            "token": "issued",
            "agents": [
                {
                    "agent_id": "5f2a90c1d3e4b677",
                    "host": "ws1",
                    "python": "3.8.18",
                    "version": "0.1.0",
                    "gpus": [
                        {
                            "uuid": "GPU-8c1f0c5e-9d3b-4f5a-8a3e-0d1c2b3a4f5e",
                            "name": "NVIDIA RTX A5000",
                            "total_mb": 24564,
                            "free_mb": 24110,
                        }
                    ],
                    "first_seen": 1772357011.2,
                    "last_seen": 1772357400.5,
                    "present": True,
                    "run_id": None,
                }
            ],
        },
    ]
}

CHECK: dict[str, Any] = {
    "backend": "local",
    "type": "local",
    "summary": "local: this machine, CPU",
    "ok": True,
    "checks": [{"name": "python", "ok": True, "message": "Python 3.12.4", "next_step": "", "is_note": False}],
    "facts": {"python_version": "3.12.4", "device": "cpu"},
}


def one(example: Any) -> dict[str, Any]:
    """For `json_schema_extra` of a model: its one example."""
    return {"examples": [example]}
