"""Small Potato projects, written by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from potato_ray.project.paths import ProjectPaths

ITEMS = [{"id": f"i{number}", "text": f"text number {number}"} for number in range(1, 6)]


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[..., ProjectPaths]:
    """make_project(states, items=..., file="items.json"): `states` maps folders to user_state.json.

    A state is the file's object, or its text as it stands.
    """

    def make(
        states: dict[str, Any] | None = None, items: Any = ITEMS, file: str = "items.json", **fields: Any
    ) -> ProjectPaths:
        data = tmp_path / file
        data.write_text(items if isinstance(items, str) else json.dumps(items), "utf-8")
        output = tmp_path / "annotation_output"
        for folder, state in (states or {}).items():
            (output / folder).mkdir(parents=True)
            text = state if isinstance(state, str) else json.dumps(state)
            (output / folder / "user_state.json").write_text(text, "utf-8")
        return ProjectPaths(tmp_path, (data,), output, **fields)

    return make


@pytest.fixture
def state() -> Callable[..., dict[str, Any]]:
    """state("ann", i1=[("mood", "good", "good")]): an annotator's file; extra keys by `more`."""

    def make(user: str, more: dict[str, Any] | None = None, **items: Any) -> dict[str, Any]:
        stored = {
            instance_id: [[{"schema": scheme, "name": name}, value] for scheme, name, value in entries]
            for instance_id, entries in items.items()
        }
        return {"user_id": user, "instance_id_to_label_to_value": stored, **(more or {})}

    return make
