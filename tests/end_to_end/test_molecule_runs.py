"""A run of rdkit-property on this machine: SMILES in a field of the items, split by scaffold."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from parts import missing
from whole_runs import MakeProject, OpenSession, ended, folder_of, start

from potato_ray.config import ProjectConfig
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

POLAR = ("CCO", "CCCCO", "CC(C)CN", "OCc1ccccc1", "NCC1CCCCC1", "OCc1ccncc1", "CC(=O)O", "NCc1ccsc1")
PLAIN = ("CCC", "CCCCCl", "CC(C)C", "Cc1ccccc1", "CC1CCCCC1", "CCc1ccoc1", "CCF", "Clc1ccsc1")


@pytest.fixture(autouse=True)
def rdkit() -> None:
    if importlib.util.find_spec("rdkit") is None:
        missing("rdkit is not installed")


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


def test_molecules_are_learnt_scored_and_written_back_on_scaffolds_that_were_held_out(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    give_molecules(config)
    session = open_session(config)
    run_id = start(session, "rdkit-property", smiles_field="smiles", split="scaffold")
    run = ended(config, run_id, within_s=240.0)
    assert run.state == State.SUCCESS, (run.error, run.error_evidence)
    assert run.headline is not None
    assert run.writeback is not None
    assert run.writeback["n_written"] > 0
    folder = folder_of(config, run.run_id)
    manifest = json.loads((folder.bundle / "manifest.json").read_text("utf-8"))
    assert (manifest["split_by"], manifest["fields"]) == ("scaffold", ["smiles"])
    lines = [json.loads(line) for line in folder.predictions.read_text("utf-8").splitlines()]
    assert all(0 <= line["payload"]["nearest_similarity"] <= 1 for line in lines)
    assert any("are split by scaffold" in warning for warning in manifest["stats"]["warnings"])
