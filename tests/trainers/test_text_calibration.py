from collections.abc import Callable

import numpy as np
import pytest
from trainer_samples import Fitted, opinions, rows_of

from potato_ray.trainers import calibration, heads, kinds

Train = Callable[..., Fitted]


def scored(n: int, sharpness: float, seed: int = 0) -> tuple[calibration.Problem, heads.Scores]:
    """Two labels whose true log-odds are known, and scores that overstate them by `sharpness`."""
    draw = np.random.default_rng(seed)
    odds = draw.normal(0, 1.5, n)
    targets = (draw.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    margins = (sharpness * odds)[:, None]
    probabilities = 1 / (1 + np.exp(-margins))
    return calibration.Problem(kinds.NOMINAL, ("no", "yes"), targets), heads.Scores(margins, probabilities)


def test_overconfident_probabilities_are_corrected() -> None:
    found = calibration.choose(*scored(400, sharpness=4.0), seed=0)
    assert found.method == "sigmoid"
    assert found.curves
    assert found.after < found.before - 0.1
    assert found.curves[0].x[0] == pytest.approx(0.25, abs=0.08)


def test_probabilities_that_are_right_already_are_left_alone() -> None:
    found = calibration.choose(*scored(400, sharpness=1.0), seed=0)
    assert not found.curves
    assert not found.as_json()["applied"]
    assert found.reason == "it does not clearly lower the log loss on items left out of the fit"


def test_a_bent_scale_is_corrected_by_steps_when_rows_are_many() -> None:
    problem, scores = scored(3000, sharpness=1.0)
    bent = heads.Scores(np.sign(scores.margins) * np.abs(scores.margins) ** 3, None)
    found = calibration.choose(problem, heads.Scores(bent.margins, 1 / (1 + np.exp(-bent.margins))), seed=0)
    assert found.method == "isotonic"
    assert found.curves
    told = calibration.apply(found.curves, bent)
    assert told.min() > 0
    assert told.max() < 1
    assert np.all(np.diff(told[np.argsort(bent.margins[:, 0]), 0]) >= 0)


def test_noise_never_turns_a_score_upside_down() -> None:
    problem, scores = scored(200, sharpness=-1.0)
    curve = calibration.choose(problem, heads.Scores(scores.margins, None), seed=0).curves[0]
    assert curve.x[0] == 0.0


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        (np.arange(49) % 2, "49 train rows; 50 are needed"),
        ((np.arange(60) < 2).astype(int), "label 'yes' has 2 train rows"),
    ],
)
def test_too_little_data_is_not_calibrated_on(targets: np.ndarray, words: str) -> None:
    assert words in calibration.why_not(calibration.Problem(kinds.NOMINAL, ("no", "yes"), targets))


def test_a_run_records_what_it_measured(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(200, noise=0.2)), classifier="DecisionTreeClassifier")
    report = fitted.json("calibration.json")
    assert report["applied"]
    assert report["before"] > report["after"]
    assert report["n_rows"] == 200
    assert fitted.json("model_card.json")["calibration"] == report
    assert max(p.confidence or 0 for p in fitted.of(opinions(50, seed=1)[0])) < 0.95


def test_calibration_can_be_switched_off(train: Train) -> None:
    fitted = train(
        "nominal", rows_of(*opinions(200, noise=0.2)), classifier="DecisionTreeClassifier", calibrate=False
    )
    assert fitted.json("calibration.json")["reason"] == "calibrate is false"
    assert fitted.of(["great"])[0].confidence == 1.0


def test_an_estimator_without_probabilities_gets_them_by_calibration_only(train: Train) -> None:
    calibrated = train("nominal", rows_of(*opinions(100)), classifier="LinearSVC")
    assert calibrated.json("calibration.json")["before"] is None
    assert 0.5 < (calibrated.of(["great"])[0].confidence or 0) < 1
    bare = train("nominal", rows_of(*opinions(100)), classifier="LinearSVC", calibrate=False).of(["great"])[0]
    assert bare.confidence is None
    assert bare.payload == {"label": "good"}


@pytest.mark.parametrize("kind", ["ordinal", "multilabel"])
def test_every_kind_of_label_works_without_probabilities(kind: str, train: Train) -> None:
    texts, labels = opinions(60)
    targets = [("5" if label == "good" else "1") if kind == "ordinal" else [label] for label in labels]
    prediction = train(kind, rows_of(texts, targets), classifier="LinearSVC", calibrate=False).of(["great"])[
        0
    ]
    assert dict(prediction.payload) in ({"label": "5"}, {"labels": ["good"]})
    assert prediction.confidence is None
