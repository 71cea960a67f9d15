"""Requests for bundles of small projects."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from potato_ray.bundle.request import BundleRequest
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.schemes import schemes_of

PROJECTS = Path(__file__).parents[1] / "projects"


@pytest.fixture
def potato() -> Callable[..., BundleRequest]:
    """potato("pairs", "margin", **fields): a request for a scheme of a project that Potato wrote."""

    def make(project: str, scheme_name: str, **fields: Any) -> BundleRequest:
        folder = PROJECTS / project
        config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
        keys = config["item_properties"]
        media = config.get("media_directory")
        paths = ProjectPaths(
            folder,
            tuple(folder / path for path in config["data_files"]),
            folder / config["output_annotation_dir"],
            keys["id_key"],
            keys["text_key"],
            folder / media if media else None,
        )
        schemes = schemes_of(config["annotation_schemes"])
        chosen = tuple(scheme for scheme in schemes if scheme.name == scheme_name)
        return BundleRequest(paths, chosen, tuple(scheme.name for scheme in schemes), **fields)

    return make


@pytest.fixture
def small(tmp_path: Path) -> Callable[..., BundleRequest]:
    """small(items, {annotator: {item: label}}, **fields): a radio scheme "mood" of good and bad."""

    def make(
        items: Iterable[Mapping[str, Any]], answers: Mapping[str, Mapping[str, str]], **fields: Any
    ) -> BundleRequest:
        data = tmp_path / "items.json"
        data.write_text(json.dumps(list(items)), "utf-8")
        for user, given in answers.items():
            folder = tmp_path / "annotation_output" / user
            folder.mkdir(parents=True, exist_ok=True)
            stored = {key: [[{"schema": "mood", "name": label}, label]] for key, label in given.items()}
            state = {"user_id": user, "instance_id_to_label_to_value": stored}
            (folder / "user_state.json").write_text(json.dumps(state), "utf-8")
        paths = ProjectPaths(tmp_path, (data,), tmp_path / "annotation_output")
        mood = {"annotation_type": "radio", "name": "mood", "labels": ["good", "bad"]}
        return BundleRequest(paths, tuple(schemes_of([mood])), ("mood",), **fields)

    return make
