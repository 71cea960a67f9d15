"""A run of rdkit-property on this machine: SMILES in a field of the items, split by scaffold."""

from __future__ import annotations

import importlib.util
import json

import pytest
from molecule_items import give_molecules
from parts import missing
from whole_runs import MakeProject, OpenSession, ended, folder_of, start

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


@pytest.fixture(autouse=True)
def rdkit() -> None:
    if importlib.util.find_spec("rdkit") is None:
        missing("rdkit is not installed")


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
