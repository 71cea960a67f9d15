"""A small project, and a way to validate a configuration that is written in place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray.config import Validation, validate

PROJECT = """\
annotation_task_name: a study
task_dir: .
data_files: [data/items.json]
item_properties: {id_key: id, text_key: text}
output_annotation_dir: annotation_output
annotation_schemes:
  - {annotation_type: radio, name: sentiment, description: How it is, labels: [good, bad]}
  - {annotation_type: span, name: evidence, description: Where, labels: [praise]}
"""

Validate = Callable[[str], Validation]


@pytest.fixture
def project() -> str:
    """A configuration without findings and without model_training, for the project in `folder`."""
    return PROJECT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project's folder: two items, no configuration yet."""
    (tmp_path / "data").mkdir()
    items = [{"id": "i1", "text": "fine", "author": "ann"}, {"id": "i2", "text": "bad", "author": "bob"}]
    (tmp_path / "data" / "items.json").write_text(json.dumps(items), encoding="utf-8")
    return tmp_path


@pytest.fixture
def check(folder: Path) -> Validate:
    """Validates a whole configuration."""

    def run(text: str) -> Validation:
        path = folder / "config.yaml"
        path.write_text(text, encoding="utf-8")
        return validate(path)

    return run


@pytest.fixture
def check_training(check: Validate) -> Validate:
    """Validates the project with lines (indented by two) of model_training."""
    return lambda lines: check(f"{PROJECT}model_training:\n{lines}\n")
