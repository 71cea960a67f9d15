"""The split by scaffold, which rdkit-property asks for."""

from __future__ import annotations

import importlib.util

import pytest
from parts import missing

from potato_ray.bundle.builder import build

RINGS = ("c1ccccc1", "c1ccncc1", "C1CCCCC1", "C1CCNCC1", "c1ccsc1", "c1ccoc1", "C1CC1", "c1ccc2ccccc2c1")
ITEMS = [
    {"id": f"m{number:03d}", "text": "a compound", "smiles": "C" * (1 + number // 8) + RINGS[number % 8]}
    for number in range(80)
] + [
    {
        "id": f"a{number}",
        "text": "a compound",
        "smiles": ("OCC" if number % 2 else "CCO") + "C" * (number // 2),
    }
    for number in range(20)
]
ANSWERS = {"ann": {item["id"]: "good" if number % 3 else "bad" for number, item in enumerate(ITEMS)}}


@pytest.fixture(autouse=True)
def rdkit() -> None:
    if importlib.util.find_spec("rdkit") is None:
        missing("rdkit is not installed")


def splits(small, folder, **params):
    params = {"smiles_field": "smiles", **params}
    report = build(small(ITEMS, ANSWERS, trainer="rdkit-property", params=params), folder)
    return report, {item: split for split, items in report.splits.items() for item in items}


def test_molecules_of_one_scaffold_share_a_split(small, tmp_path):
    report, own = splits(small, tmp_path / "own", split="scaffold")
    for ring in range(8):
        assert len({own[f"m{number:03d}"] for number in range(ring, 80, 8)}) == 1
    assert report.manifest["split_by"] == "scaffold"
    assert any("are split by scaffold" in line for line in report.warnings)


def test_a_molecule_without_a_ring_shares_a_split_with_itself_written_otherwise(small, tmp_path):
    _, own = splits(small, tmp_path / "own", split="scaffold")
    assert own["a0"] == own["a1"]
    assert len({own[f"a{number}"] for number in range(20)}) > 1


def test_a_molecule_that_is_none_is_split_by_its_id(small, tmp_path, capfd):
    ITEMS[0]["smiles"], kept = "no molecule", ITEMS[0]["smiles"]
    try:
        _, own = splits(small, tmp_path / "own", split="scaffold")
        _, study = splits(small, tmp_path / "study")
    finally:
        ITEMS[0]["smiles"] = kept
    assert own["m000"] == study["m000"]
    assert capfd.readouterr() == ("", "")
