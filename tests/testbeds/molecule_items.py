"""Molecules for the items of a project, of which the answers of its annotators can be told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from potato_ray.config import ProjectConfig

POLAR = ("CCO", "CCCCO", "CC(C)CN", "OCc1ccccc1", "NCC1CCCCC1", "OCc1ccncc1", "CC(=O)O", "NCc1ccsc1")
PLAIN = ("CCC", "CCCCCl", "CC(C)C", "Cc1ccccc1", "CC1CCCCC1", "CCc1ccoc1", "CCF", "Clc1ccsc1")


def give_molecules(config: ProjectConfig) -> None:
    """Each review gets a molecule, polar where somebody found it positive; the first one gets none."""
    task_dir = Path(config.task_dir)
    answers: dict[str, str] = {}
    for path in sorted(task_dir.glob("annotation_output/*/user_state.json")):
        given = json.loads(path.read_text("utf-8"))["instance_id_to_label_to_value"]
        answers.update({item: entries[0][1] for item, entries in given.items()})
    data = task_dir / "data" / "reviews.json"
    items: list[dict[str, Any]] = json.loads(data.read_text("utf-8"))
    for number, item in enumerate(items):
        some = POLAR if answers.get(item["id"]) == "positive" else PLAIN
        item["smiles"] = some[number % len(some)]
    items[0]["smiles"] = "no molecule"
    data.write_text(json.dumps(items), "utf-8")
