from __future__ import annotations

import importlib.util
import json
import random

import pytest
from molecule_samples import NO_MOLECULES, drawn, targets_of
from parts import missing
from trainer_samples import fit_in, rows_of

from potato_ray.trainers import model_files, molecule_features
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.params import check_params
from potato_ray.trainers.rdkit_property import InvalidMolecules, RdkitProperty
from potato_ray.trainers.registry import learns
from potato_ray.trainers.soundness import unsound_parts

QUICK = {"features": "morgan", "n_bits": 256, "n_estimators": 30, "calibrate": False}


@pytest.fixture(autouse=True)
def rdkit() -> None:
    if importlib.util.find_spec("rdkit") is None:
        missing("rdkit is not installed")


@pytest.fixture
def train(tmp_path):
    """train(kind, rows, held_out=(), **params): a fit, with few trees unless the parameters say otherwise."""

    def fit(kind, rows, held_out=(), seed=0, **params):
        return fit_in(
            tmp_path, RdkitProperty, kind, {"train": rows, "test": held_out}, {**QUICK, **params}, seed
        )

    return fit


def labelled(kind, n=100, seed=0):
    some = drawn(seed)[:n]
    return rows_of([smiles for smiles, _ in some], targets_of(kind, some))


def others(kind, n=100, seed=0):
    some = drawn(seed)[n:]
    return [smiles for smiles, _ in some], targets_of(kind, some)


@pytest.mark.parametrize("model", ["gradient_boosting", "random_forest"])
@pytest.mark.parametrize("kind", ["nominal", "ordinal", "multilabel"])
def test_labels_grades_and_sets_of_labels_are_learnt(kind, model, train):
    fitted = train(kind, labelled(kind), model=model, features="both")
    smiles, wanted = others(kind)
    told = [each.payload.get("label", each.payload.get("labels")) for each in fitted.of(smiles)]
    assert sum(a == b for a, b in zip(told, wanted, strict=True)) / len(wanted) > 0.85
    assert fitted.metrics["n_train"] == 100.0
    assert all(name.startswith(("train_", "n_")) for name in fitted.metrics)


@pytest.mark.parametrize("model", ["gradient_boosting", "random_forest"])
def test_numbers_are_learnt_and_have_no_confidence(model, train):
    fitted = train("continuous", labelled("continuous"), model=model, features="descriptors")
    smiles, wanted = others("continuous")
    told = fitted.of(smiles)
    errors = [abs(each.payload["value"] - value) for each, value in zip(told, wanted, strict=True)]
    assert sum(errors) / len(errors) < 6
    assert {each.confidence for each in told} == {None}
    assert all(0 <= each.payload["value"] <= 100 for each in told)


@pytest.mark.parametrize("kind", ["nominal", "ordinal", "multilabel", "continuous"])
@pytest.mark.parametrize("model", ["gradient_boosting", "random_forest"])
def test_a_loaded_model_says_what_the_fitted_one_said(kind, model, train):
    fitted = train(kind, labelled(kind), model=model, features="both", calibrate=True)
    loaded = RdkitProperty.load(fitted.artifacts)
    new = rows_of(others(kind)[0])
    assert list(loaded.predict(new)) == list(fitted.trainer.predict(new))
    assert loaded.label_order() == fitted.trainer.label_order()


def test_the_same_seed_gives_the_same_model(train):
    rows, new = labelled("nominal"), others("nominal")[0]
    first = train("nominal", rows, model="random_forest", seed=3).of(new)
    assert train("nominal", rows, model="random_forest", seed=3).of(new) == first
    assert train("nominal", rows, model="random_forest", seed=4).of(new) != first


def test_few_molecules_can_be_learnt_from_too(train):
    fitted = train("nominal", labelled("nominal", 24), features="both")
    smiles, wanted = others("nominal", 24)
    told = [each.payload["label"] for each in fitted.of(smiles)]
    assert sum(a == b for a, b in zip(told, wanted, strict=True)) / len(wanted) > 0.7


def test_the_columns_that_are_left_out_change_no_prediction(train, monkeypatch):
    import numpy as np

    from potato_ray.trainers.molecule_trees import Trees

    rows, new = labelled("continuous"), others("continuous")[0]
    some = train("continuous", rows)
    monkeypatch.setattr(Trees, "columns", lambda self, matrix: np.arange(matrix.shape[1]))
    every = train("continuous", rows)
    assert every.metrics["n_features"] > some.metrics["n_features"]
    assert every.of(new) == some.of(new)


def test_each_prediction_tells_how_like_the_nearest_train_molecule_is(train):
    rows = labelled("nominal")
    known, strange = train("nominal", rows).of([rows[0]["text"], "[Og]"])
    assert known.payload["nearest_similarity"] == 1.0
    assert strange.payload["nearest_similarity"] < 0.4
    json.dumps(known.payload, allow_nan=False)


def test_items_without_a_molecule_are_left_out_of_the_fit_counted_and_named(train):
    rows = labelled("nominal")
    for row, text in zip(rows[:5], NO_MOLECULES, strict=True):
        row["text"] = text
    fitted = train("nominal", rows)
    assert (fitted.metrics["n_train"], fitted.metrics["n_invalid"]) == (95.0, 5.0)
    [said] = fitted.recorder.warnings
    assert said.startswith("5 of 100 train items have no SMILES that RDKit reads: i0 ('hello there'), i1")
    assert fitted.json("model_card.json")["n_invalid"] == 5


def test_prose_that_was_read_as_smiles_is_warned_of(train):
    rows = labelled("nominal")
    rows[3]["text"], rows[4]["text"] = "I love this", "CCO ethanol"
    rows[5]["text"] += " |$_R1; $|"
    fitted = train("nominal", rows)
    [said] = fitted.recorder.warnings
    assert said.startswith(
        "1 of 100 train items has several words behind what was read as their SMILES, such as i3"
    )
    assert "('I love this')" in said
    assert fitted.metrics["n_invalid"] == 0.0


def test_names_of_molecules_are_not_warned_of_though_some_are_of_two_words(train):
    rows = labelled("nominal")
    for row, name in zip(rows, ("ethanol", "acetic acid", "phenol"), strict=False):
        row["text"] += f" {name}"
    assert train("nominal", rows).recorder.warnings == []


def test_an_item_without_a_molecule_gets_no_prediction_and_is_named(train):
    fitted = train("nominal", labelled("nominal"))
    told = fitted.of(["CCO", "hello there", "CCN"])
    assert [each.instance_id for each in told] == ["i0", "i2"]
    assert fitted.recorder.warnings == [
        "1 of 3 items has no SMILES that RDKit reads: i1 ('hello there'). They get no prediction."
    ]
    with pytest.warns(InvalidMolecules, match="1 of 3 items has no SMILES"):
        list(RdkitProperty.load(fitted.artifacts).predict(rows_of(["CCO", "hello there", "CCN"])))


def test_too_few_molecules_among_the_items_end_the_run_with_a_reason(train):
    rows = rows_of(["a sentence"] * 30, ["good", "bad"] * 15)
    with pytest.raises(
        TrainerError, match=r"30 of 30 train items .* 0 are left, and 10 are needed"
    ) as failure:
        train("nominal", rows)
    assert "smiles_field" in failure.value.next_step


def test_molecules_that_are_in_train_and_held_out_are_counted(train):
    rows = labelled("nominal")
    held_out = rows_of(["OCCCC", "[Og]", "nothing"], ["good"] * 3)
    assert "CCCCO" in [row["text"] for row in rows]
    [said] = train("nominal", rows, held_out).recorder.warnings
    assert said.startswith("1 of 3 held-out items is the same molecule as a train item")


def test_the_smiles_may_stand_in_a_field_beside_the_text(train):
    rows = [
        {**row, "text": "a compound", "fields": {"smiles": row["text"]}} for row in labelled("nominal", 60)
    ]
    rows[0]["fields"] = {"smiles": ""}
    fitted = train("nominal", rows, smiles_field="smiles")
    assert RdkitProperty.item_fields({"smiles_field": "smiles"}) == ("smiles",)
    assert fitted.metrics["n_invalid"] == 1.0
    assert len(list(fitted.trainer.predict(rows[1:]))) == 59
    assert len(fitted.of(["CCO"])) == 1  # a row without fields: a line of a text file


def test_rdkit_and_the_model_say_nothing_of_their_own(train, capfd):
    rows = labelled("nominal")
    rows[0]["text"] = "C1CC"
    train("nominal", rows, features="both").of(["c1cccc1", "CCO"])
    assert capfd.readouterr() == ("", "")


def test_the_card_tells_the_version_of_rdkit_and_the_features(train):
    card = train("nominal", labelled("nominal"), radius=3).json("model_card.json")
    assert card["trainer"] == "rdkit-property"
    assert card["versions"]["rdkit"] == molecule_features.version()
    assert (card["features"]["radius"], card["features"]["n_bits"]) == (3, 256)
    assert (card["split"], card["classifier"]) == ("item", "HistGradientBoostingClassifier")


def test_another_version_of_rdkit_is_warned_of(train):
    fitted = train("nominal", labelled("nominal"))
    card = fitted.json("model_card.json")
    card["versions"]["rdkit"] = "2022.09.1"
    (fitted.artifacts / "model_card.json").write_text(json.dumps(card))
    with pytest.warns(model_files.ModelVersionWarning, match=r"RDKit 2022\.09\.1 and is used with"):
        RdkitProperty.load(fitted.artifacts)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("left", 10**6, "a boosted tree points outside itself"),
        ("feature_idx", 10**6, "a boosted tree points outside itself"),
        ("is_categorical", 1, "a boosted tree asks for categories"),
    ],
)
def test_a_boosted_tree_that_was_tampered_with_is_refused(field, value, words, train):
    import skops.io

    fitted = train("nominal", labelled("nominal"))
    model = model_files.load_model(fitted.artifacts)
    assert unsound_parts(model) == []
    model["estimators"][0]._predictors[0][0].nodes[field][0] = value
    skops.io.dump(model, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match=words):
        RdkitProperty.load(fitted.artifacts)


@pytest.mark.parametrize("part", ["bits", "columns"])
def test_a_model_whose_parts_do_not_fit_together_is_refused(part, train):
    import skops.io

    fitted = train("nominal", labelled("nominal"))
    model = model_files.load_model(fitted.artifacts)
    model[part] = model[part][..., :3] + 10_000 if part == "columns" else model[part][:, :3]
    skops.io.dump(model, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match="is no model of rdkit-property"):
        RdkitProperty.load(fitted.artifacts)


def test_an_argument_that_the_estimator_does_not_take_is_named_with_the_nearest(train):
    with pytest.raises(TrainerError, match="does not take max_dept; it takes") as refusal:
        train("nominal", labelled("nominal"), model_kwargs={"max_dept": 3})
    assert refusal.value.next_step == "Did you mean max_depth?"


def test_an_argument_out_of_range_is_refused_in_the_library_s_words(train):
    with pytest.raises(TrainerError, match="max_depth") as refusal:
        train("nominal", labelled("nominal"), model_kwargs={"max_depth": -1})
    assert refusal.value.code == "validation_failed"


def test_rare_labels_weigh_more_when_they_are_to_be_balanced(train):
    rows, draw = labelled("nominal"), random.Random(0)
    rare = [row for row in rows if row["targets"]["s"] == "bad" or draw.random() < 0.2]
    new = others("nominal")[0]
    plain, balanced = (
        [each.payload["probabilities"]["good"] for each in train("nominal", rare, class_weights=way).of(new)]
        for way in ("none", "balanced")
    )
    assert sum(balanced) > sum(plain)


def test_pairs_and_pictures_are_not_for_it():
    assert not learns(RdkitProperty, "nominal", "pairwise")
    assert learns(RdkitProperty, "continuous", "number")


def test_a_wrong_choice_is_refused_with_the_nearest():
    [problem] = check_params(RdkitProperty, {"split": "scafold"})
    assert "Did you mean scaffold?" in problem.message


@pytest.mark.parametrize(
    ("params", "twice"),
    [
        (
            {"model": "random_forest", "n_estimators": 7, "model_kwargs": {"n_estimators": 5}},
            "n_estimators is 7",
        ),
        ({"n_estimators": 7, "model_kwargs": {"max_iter": 5}}, "n_estimators is 7"),
        ({"class_weights": "balanced", "model_kwargs": {"class_weight": None}}, "class_weights is balanced"),
    ],
)
def test_what_a_parameter_says_is_not_said_otherwise_by_model_kwargs(params, twice, train):
    with pytest.raises(TrainerError, match=twice) as refused:
        train("nominal", labelled("nominal"), **params)
    assert refused.value.code == "validation_failed"
    assert "out of model_kwargs" in refused.value.next_step
