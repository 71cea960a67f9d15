"""Curves are drawn from the metrics that were reported step by step, and from nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from potato_ray.scoring.curves import curves_in, write_curves


def metric(name: str, value: Any, step: Any) -> str:
    return json.dumps({"v": 1, "event": "metric", "t": 0.0, "name": name, "value": value, "step": step})


def test_a_metric_of_several_steps_is_a_curve(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    lines = [metric("train_loss", 1.0, 0), metric("train_loss", 0.5, 10), metric("n_train", 94, None)]
    lines.append(metric("train_loss", 10**400, 15))
    events.write_text(
        "\n".join([*lines, metric("once", 1.0, 3), metric("train_loss", None, 20), '{"event": "met'])
    )
    assert curves_in(events) == {"train_loss": [(0.0, 1.0), (10.0, 0.5)]}


def test_curves_become_a_picture(tmp_path: Path) -> None:
    path = write_curves({"train_loss": [(0.0, 1.0), (10.0, 0.5)]}, tmp_path)
    assert path is not None
    assert "train_loss" in path.read_text("utf-8")


def test_without_curves_there_is_no_picture(tmp_path: Path) -> None:
    assert write_curves({}, tmp_path) is None
    assert list(tmp_path.iterdir()) == []
