import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skops.io
from sklearn.ensemble import GradientBoostingClassifier
from trainer_samples import Fitted, opinions, rows_of

from potato_ray.trainers import model_files
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.model_files import ModelVersionWarning
from potato_ray.trainers.registry import load_trainer
from potato_ray.trainers.soundness import unsound_parts

Train = Callable[..., Fitted]


class Bomb:
    """Runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch exploded",)


def change_card(fitted: Fitted, **changes: Any) -> None:
    path = fitted.artifacts / "model_card.json"
    path.write_text(json.dumps({**fitted.json("model_card.json"), **changes}))


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("nominal", {}),
        ("nominal", {"classifier": "RandomForestClassifier"}),
        ("nominal", {"classifier": "KNeighborsClassifier"}),
        ("nominal", {"classifier": "SVC"}),
        ("nominal", {"vectorizer": "HashingVectorizer"}),
        ("ordinal", {}),
        (
            "multilabel",
            {"classifier": "GradientBoostingClassifier", "classifier_kwargs": {"n_estimators": 5}},
        ),
        ("continuous", {"classifier": "DecisionTreeRegressor"}),
        ("continuous", {"letter_groups": False}),
    ],
)
def test_a_loaded_model_says_what_the_fitted_one_said(
    kind: str, params: dict[str, Any], train: Train
) -> None:
    texts, labels = opinions(80, noise=0.1)
    targets = {
        "nominal": labels,
        "ordinal": ["5" if label == "good" else "2" for label in labels],
        "multilabel": [["price"] if label == "good" else [] for label in labels],
        "continuous": [80.0 if label == "good" else 20.0 for label in labels],
    }[kind]
    fitted = train(kind, rows_of(texts, targets), **params)
    loaded = load_trainer(fitted.artifacts)
    new = rows_of([*opinions(30, seed=1)[0], "", "\ud800"])
    assert list(loaded.predict(new)) == list(fitted.trainer.predict(new))
    assert loaded.label_order() == fitted.trainer.label_order()


def test_the_card_says_what_the_model_is(train: Train) -> None:
    card = train("nominal", rows_of(*opinions(40)), classifier_kwargs={"C": 2.0}).json("model_card.json")
    assert card["trainer"] == "sklearn-text"
    assert card["label_order"] == ["good", "bad"]
    assert card["n_train"] == 40
    assert card["bundle_digest"] == "d1ge57"
    assert card["params"]["classifier_kwargs"] == {"C": 2.0}
    assert {"python", "scikit-learn", "numpy", "scipy", "skops"} == set(card["versions"])


def test_a_model_holds_no_train_texts_and_no_vocabulary_as_a_tree_of_objects(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(300)))
    with zipfile.ZipFile(fitted.artifacts / "model.skops") as archive:
        assert archive.getinfo("schema.json").file_size < 60_000


def test_a_pickle_in_place_of_the_model_is_never_unpickled(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    monkeypatch.chdir(fitted.artifacts)
    (fitted.artifacts / "model.skops").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(TrainerError, match=r"model\.skops was not loaded") as refusal:
        load_trainer(fitted.artifacts)
    assert refusal.value.code == "validation_failed"
    assert not (fitted.artifacts / "exploded").exists()


def test_a_model_that_asks_for_a_foreign_type_is_refused_by_name(
    train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    monkeypatch.chdir(fitted.artifacts)
    skops.io.dump({"format": 1, "estimators": [os.system, Bomb()]}, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match=r"it asks for .*system"):
        load_trainer(fitted.artifacts)
    assert not (fitted.artifacts / "exploded").exists()


def test_a_model_that_another_version_saved_is_named_as_such(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    skops.io.dump({"format": 1}, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match="of format 1, and this version of potato_ray reads 2"):
        load_trainer(fitted.artifacts)


def test_a_model_of_another_shape_is_refused(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    skops.io.dump({"format": 2}, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match="is no model of sklearn-text"):
        load_trainer(fitted.artifacts)


def test_a_tree_that_points_outside_itself_is_refused(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(40)), classifier="RandomForestClassifier")
    model = model_files.load_model(fitted.artifacts)
    assert unsound_parts(model) == []
    model["estimators"][0].estimators_[3].tree_.children_left[0] = 10**6
    skops.io.dump(model, fitted.artifacts / "model.skops")
    with pytest.raises(TrainerError, match="a decision tree points outside itself"):
        load_trainer(fitted.artifacts)


@pytest.mark.parametrize("classifier", ["RandomForestClassifier", "GradientBoostingClassifier"])
def test_a_tree_that_reads_more_features_than_its_ensemble_has_is_refused(
    train: Train, classifier: str
) -> None:
    fitted = train("nominal", rows_of(*opinions(40)), classifier=classifier)
    model = model_files.load_model(fitted.artifacts)
    [ensemble] = model["estimators"]
    np.ravel(ensemble.estimators_)[2].n_features_in_ += 1
    assert unsound_parts(ensemble)[0].startswith("a tree of an ensemble expects another number of features")


def boosted(n_labels: int, **kwargs: Any) -> GradientBoostingClassifier:
    rows = np.random.RandomState(0).rand(60, 4)
    return GradientBoostingClassifier(n_estimators=3, **kwargs).fit(rows, np.arange(60) % n_labels)


@pytest.mark.parametrize("init", [None, "zero"])
def test_a_boosted_round_of_more_trees_than_there_is_room_for_is_refused(init: str | None) -> None:
    sound = boosted(3, init=init)
    assert unsound_parts(sound) == []
    sound.estimators_ = np.hstack([sound.estimators_] * 2)
    assert unsound_parts(sound)[0].startswith("a boosted ensemble has more or fewer trees in a round")


def test_a_boosted_ensemble_that_begins_with_a_model_of_another_kind_is_refused() -> None:
    model = boosted(3)
    model.init_ = boosted(3)
    assert "begins with a model that is not checked" in " ".join(unsound_parts(model))


def test_a_torn_sparse_matrix_is_refused(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(40)), classifier="KNeighborsClassifier")
    model = model_files.load_model(fitted.artifacts)
    model["estimators"][0]._fit_X.indices[0] = 10**6
    assert "a sparse matrix is torn" in unsound_parts(model)[0]


def test_a_card_never_decides_what_is_imported(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    change_card(fitted, trainer="os:system")
    with pytest.raises(TrainerError, match="names the trainer 'os:system', which is not known here"):
        load_trainer(fitted.artifacts)


def test_a_run_without_model_files_says_which_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"model_card.json cannot be read"):
        load_trainer(tmp_path)


def test_another_minor_version_of_the_library_is_warned_of(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    major = fitted.json("model_card.json")["versions"]["scikit-learn"].split(".")[0]
    change_card(fitted, versions={"scikit-learn": f"{major}.999.0"})
    with pytest.warns(ModelVersionWarning, match=r"999\.0 and is used with"):
        load_trainer(fitted.artifacts)


def test_another_major_version_of_the_library_is_refused(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(20)))
    change_card(fitted, versions={"scikit-learn": "0.24.2"})
    with pytest.raises(TrainerError, match=r"fitted with scikit-learn 0\.24\.2") as refusal:
        load_trainer(fitted.artifacts)
    assert "Install scikit-learn 0.24.2 or train again" in refusal.value.next_step
