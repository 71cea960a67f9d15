from __future__ import annotations

import importlib.util

import pytest
from molecule_samples import MOLECULES, NO_MOLECULES
from parts import missing

from potato_ray.trainers import molecule_features, molecules
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.molecule_features import LEFT_OUT, MoleculeFeatures, nearest_similarities

SMILES = [smiles for smiles, _ in MOLECULES[:40]]


@pytest.fixture(autouse=True)
def rdkit() -> None:
    if importlib.util.find_spec("rdkit") is None:
        missing("rdkit is not installed")


def features_of(smiles, which="both", radius=2, n_bits=256):
    import numpy as np

    features = MoleculeFeatures.of(which, radius, n_bits)
    matrix = np.empty((len(smiles), features.n_columns), dtype=np.float32)
    return features, matrix, features.into(matrix, molecules.read(smiles).found)


def test_texts_that_are_no_molecules_are_told_apart_without_a_word(capfd):
    found = molecules.read(["CCO", *NO_MOLECULES, " c1ccccc1 "])
    assert found.numbers == [0, len(NO_MOLECULES) + 1]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("text", ["CCO ethanol", "CCO |ethanol|", "CCO |$a;b;c$|"])
def test_what_stands_behind_a_blank_is_the_molecule_s_name(text):
    [named] = molecules.read([text]).found
    assert molecules.canonical(named) == "CCO"


def test_a_torn_extension_changes_nothing_of_the_molecule_before_it():
    whole, torn = molecules.read(["C[C@H](O)N", "C[C@H](O)N |w:1.0,H:0.1|"]).found
    assert molecules.canonical(torn) == molecules.canonical(whole)


def test_a_molecule_is_the_same_however_it_is_written():
    assert len({molecules.canonical(each) for each in molecules.read(["OCC", "C(C)O", "[CH3]CO"]).found}) == 1


@pytest.mark.parametrize(
    ("smiles", "scaffold"),
    [("Cc1ccccc1O", "c1ccccc1"), ("c1ccncc1CCN", "c1ccncc1"), ("OCC", "CCO"), ("no molecule", None)],
)
def test_the_scaffold_is_the_rings_and_what_joins_them_or_the_molecule_itself(smiles, scaffold):
    assert molecules.scaffold(smiles) == scaffold


def test_five_items_without_a_molecule_are_named_and_the_others_counted():
    invalid = molecules.Invalid()
    for number in range(7):
        invalid.add(f"i{number}", "" if number == 0 else "x" * 100)
    said = invalid.in_words(20, "train items")
    assert said.startswith("7 of 20 train items have no SMILES that RDKit reads: i0 (empty), i1 ('xxx")
    assert said.endswith("and 2 more")
    assert "i4" in said
    assert "i5" not in said
    assert "x" * 61 not in said


def test_fingerprints_are_rdkit_s_own_counts_and_bits():
    import numpy as np
    from rdkit.Chem import rdFingerprintGenerator

    maker = rdFingerprintGenerator.GetMorganGenerator(radius=3, fpSize=256)
    _, matrix, bits = features_of(SMILES, "morgan", radius=3)
    for row, packed, molecule in zip(matrix, bits, molecules.read(SMILES).found, strict=True):
        assert (row == maker.GetCountFingerprintAsNumPy(molecule)).all()
        assert (np.unpackbits(packed) == maker.GetFingerprintAsNumPy(molecule)).all()


def test_descriptors_are_rdkit_s_own_by_name():
    from rdkit.Chem import Descriptors

    features, matrix, _ = features_of(SMILES, "descriptors")
    known = dict(Descriptors.descList)
    assert set(features.names) == set(known) - LEFT_OUT
    for row, molecule in zip(matrix, molecules.read(SMILES).found, strict=True):
        wanted = [known[name](molecule) for name in features.names]
        assert row.tolist() == pytest.approx(wanted, rel=1e-5, abs=1e-5)


def test_both_are_the_fingerprint_and_then_the_descriptors():
    _, both, _ = features_of(SMILES)
    assert (both[:, :256] == features_of(SMILES, "morgan")[1]).all()
    assert (both[:, 256:] == features_of(SMILES, "descriptors")[1]).all()


def test_what_cannot_be_computed_of_an_odd_molecule_is_a_finite_number():
    import numpy as np

    odd = ["[Na+].[Cl-]", "*", "[H][H]", "[U]", "[Og]", "C" * 300]
    assert np.isfinite(features_of(odd)[1]).all()


def test_the_nearest_similarity_is_the_greatest_tanimoto_to_any_of_the_others(monkeypatch):
    from rdkit import DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    monkeypatch.setattr(molecule_features, "_AT_ONCE", 7)
    maker = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=256)
    made = [maker.GetFingerprint(molecule) for molecule in molecules.read(SMILES).found]
    _, _, bits = features_of(SMILES)
    found = nearest_similarities(bits[:20], bits[20:])
    wanted = [max(DataStructs.BulkTanimotoSimilarity(each, made[20:])) for each in made[:20]]
    assert found.tolist() == pytest.approx(wanted)
    assert nearest_similarities(bits[:3], bits).tolist() == [1.0, 1.0, 1.0]


def test_a_descriptor_that_this_rdkit_does_not_have_is_named():
    state = {"which": "both", "radius": 2, "n_bits": 256, "names": ["MolWt", "Flavour"]}
    with pytest.raises(TrainerError, match="lacks: Flavour"):
        MoleculeFeatures.from_state(state)
