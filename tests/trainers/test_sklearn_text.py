import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trainer_samples import BAD, GOOD, PROJECTS, Fitted, opinions, rows_of, sentence

from potato_ray.trainers.base import Row, SchemeSpec, TrainerError
from potato_ray.trainers.registry import load_trainer
from potato_ray.trainers.sklearn_text import BATCH_ROWS, SklearnText
from potato_ray.trainers.train_rows import NoPairs

Train = Callable[..., Fitted]

SCALE = {
    "1": ("awful", "useless"),
    "2": ("poor", "weak"),
    "3": ("plain", "average"),
    "4": ("good", "solid"),
    "5": ("great", "superb"),
}
TOPICS = {"price": ("cheap", "cost"), "quality": ("sturdy", "flimsy"), "service": ("waiter", "helpdesk")}


def graded(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    grades = [draw.choice("12345") for _ in range(n)]
    return [sentence(draw, SCALE[grade]) for grade in grades], grades


def topical(n: int, seed: int = 0) -> tuple[list[str], list[list[str]]]:
    draw = random.Random(seed)
    sets = [sorted(draw.sample(list(TOPICS), draw.randint(0, 3))) for _ in range(n)]
    texts = [
        " ".join([sentence(draw, GOOD), *(draw.choice(TOPICS[topic]) for topic in chosen)]) for chosen in sets
    ]
    return texts, sets


def test_labels_are_learnt_and_other_texts_told_apart(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(120)))
    texts, labels = opinions(60, seed=1)
    predictions = fitted.of(texts)
    assert [p.payload["label"] for p in predictions] == labels
    assert fitted.metrics["n_train"] == 120.0
    assert fitted.metrics["train_accuracy"] > 0.95
    assert all(name.startswith(("train_", "n_")) for name in fitted.metrics)


def test_probabilities_follow_the_label_order_and_the_label_is_the_most_probable(train: Train) -> None:
    texts, labels = opinions(90)
    fitted = train(
        "nominal", rows_of(texts, ["mixed" if n % 3 == 0 else label for n, label in enumerate(labels)])
    )
    for prediction in fitted.of(texts):
        probabilities = prediction.payload["probabilities"]
        assert list(probabilities) == fitted.trainer.label_order() == ["good", "bad", "mixed"]
        assert sum(probabilities.values()) == pytest.approx(1.0)
        assert (
            prediction.confidence == max(probabilities.values()) == probabilities[prediction.payload["label"]]
        )
        json.dumps(prediction.payload, allow_nan=False)


def test_grades_are_learnt_in_their_order(train: Train) -> None:
    fitted = train("ordinal", rows_of(*graded(300)))
    texts, grades = graded(100, seed=1)
    told = [prediction.payload["label"] for prediction in fitted.of(texts)]
    assert sum(abs(int(a) - int(b)) for a, b in zip(told, grades, strict=True)) / 100 < 0.2
    assert fitted.trainer.label_order() == ["1", "2", "3", "4", "5"]


def test_the_probabilities_of_grades_are_a_distribution(train: Train) -> None:
    for prediction in train("ordinal", rows_of(*graded(120))).of(graded(40, seed=1)[0]):
        probabilities = prediction.payload["probabilities"]
        assert sum(probabilities.values()) == pytest.approx(1.0)
        assert min(probabilities.values()) >= 0
        assert prediction.payload["label"] == max(probabilities, key=probabilities.get)


def test_sets_of_labels_are_learnt_and_may_be_empty(train: Train) -> None:
    fitted = train("multilabel", rows_of(*topical(300)))
    texts, sets = topical(100, seed=1)
    predictions = fitted.of(texts)
    told = [prediction.payload["labels"] for prediction in predictions]
    assert sum(a == b for a, b in zip(told, sets, strict=True)) >= 95
    assert [] in told
    assert fitted.trainer.label_order() == ["service", "price", "quality"]
    for prediction in predictions:
        odds = prediction.payload["probabilities"]
        assert prediction.payload["labels"] == sorted(label for label, p in odds.items() if p >= 0.5)
        assert prediction.confidence == min(max(p, 1 - p) for p in odds.values())


def test_a_label_that_every_item_has_is_always_given(train: Train) -> None:
    texts, sets = topical(40)
    always = [sorted({*chosen, "price"}) for chosen in sets]
    fitted = train("multilabel", rows_of(texts, always))
    assert all("price" in prediction.payload["labels"] for prediction in fitted.of(texts))


def test_numbers_are_learnt_and_stay_inside_the_scale(train: Train) -> None:
    texts, grades = graded(200)
    fitted = train("continuous", rows_of(texts, [25.0 * (int(grade) - 1) for grade in grades]))
    new, wanted = graded(60, seed=1)
    values = [prediction.payload["value"] for prediction in fitted.of(new)]
    errors = [abs(value - 25.0 * (int(grade) - 1)) for value, grade in zip(values, wanted, strict=True)]
    assert sum(errors) / len(errors) < 15
    assert all(0 <= value <= 100 for value in values)
    assert fitted.trainer.label_order() == []
    assert fitted.of(["great"])[0].confidence is None


PAIRWISE = SchemeSpec("s", "pairwise", "nominal", ("A", "B"))


def pairs() -> list[Row]:
    """80 pairs of a good and a bad text; the good one is preferred."""
    draw, rows = random.Random(0), []
    for n in range(80):
        pair = [sentence(draw, GOOD), sentence(draw, BAD)]
        answer = draw.choice("AB")
        texts = pair if answer == "A" else pair[::-1]
        rows.append({"instance_id": str(n), "text": "joined", "texts": texts, "targets": {"s": answer}})
    return rows


def test_the_text_that_speaks_for_a_side_of_a_pair_speaks_against_the_other(train: Train) -> None:
    fitted = train(PAIRWISE, pairs())
    new = [
        {"instance_id": "x", "texts": ["a lovely room", "an awful room"]},
        {"instance_id": "y", "text": "no pair"},
    ]
    told = list(fitted.trainer.predict(new))
    assert told[0].payload["label"] == "A"
    assert [each.instance_id for each in told] == ["x"]
    assert fitted.recorder.warnings == ["1 item that does not have two texts (y): no prediction."]


def test_items_without_two_texts_are_left_out_of_pairs_and_named(train: Train) -> None:
    rows = pairs()
    rows[3]["texts"], rows[4]["texts"] = ["one", "two", "three"], None
    fitted = train(PAIRWISE, rows)
    assert fitted.metrics["n_train"] == 78
    [warning] = fitted.recorder.warnings
    assert warning == "2 items that do not have two texts (3, 4): left out of the 80 train items."
    [said] = fitted.trainer.predict([{"instance_id": "x", "texts": ["a lovely room", "an awful room"]}])
    assert said.payload["label"] == "A"


def test_a_loaded_model_warns_of_what_is_no_pair(train: Train) -> None:
    model = load_trainer(train(PAIRWISE, pairs()).artifacts)
    with pytest.warns(NoPairs, match=r"1 item that does not have two texts \(y\): no prediction\."):
        assert list(model.predict([{"instance_id": "y", "text": "no pair"}])) == []


def test_pairwise_answers_to_single_texts_are_learnt_with_a_warning(train: Train) -> None:
    rows = [{**row, "text": " ".join(row["texts"]), "texts": []} for row in pairs()]
    [warning] = train(PAIRWISE, rows).recorder.warnings
    assert "No item of 's' has two texts" in warning


def test_a_classifier_that_takes_nothing_below_zero_is_refused_for_pairs(train: Train) -> None:
    with pytest.raises(TrainerError, match="MultinomialNB takes no features below zero") as refused:
        train(PAIRWISE, pairs(), classifier="MultinomialNB")
    assert refused.value.code == "validation_failed"


def test_reviews_that_people_labelled_are_learnt(train: Train) -> None:
    project = PROJECTS / "review-sentiment"
    texts = {
        item["id"]: item["text"]
        for item in json.loads((project / "data" / "reviews.json").read_text("utf-8"))
    }
    answers: dict[str, str] = {}
    for path in sorted(project.glob("annotation_output/*/user_state.json")):
        given = json.loads(path.read_text("utf-8"))["instance_id_to_label_to_value"]
        answers.update({item: entries[0][1] for item, entries in given.items()})
    items = sorted(answers)
    learnt, held_out = items[: len(items) * 3 // 4], items[len(items) * 3 // 4 :]
    scheme = SchemeSpec("s", "radio", "nominal", ("positive", "negative"))
    fitted = train(scheme, rows_of([texts[i] for i in learnt], [answers[i] for i in learnt]))
    told = fitted.of([texts[i] for i in held_out])
    right = sum(p.payload["label"] == answers[i] for p, i in zip(told, held_out, strict=True))
    majority = max(Counter(answers[i] for i in held_out).values())
    assert right > majority


def test_the_same_seed_gives_the_same_metrics_and_predictions(train: Train) -> None:
    rows, texts = rows_of(*opinions(150, noise=0.2)), opinions(20, seed=1)[0]
    first = train("nominal", rows, classifier="RandomForestClassifier", seed=3)
    second = train("nominal", rows, classifier="RandomForestClassifier", seed=3)
    assert first.metrics == second.metrics
    assert first.of(texts) == second.of(texts)
    assert train("nominal", rows, classifier="RandomForestClassifier", seed=4).of(texts) != first.of(texts)


def test_predictions_come_in_order_across_batches_and_are_not_waited_for(train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(40)))
    taken: list[int] = []

    def endless() -> Any:
        for n in range(10 * BATCH_ROWS):
            taken.append(n)
            yield {"instance_id": n, "text": "great"}

    stream = fitted.trainer.predict(endless())
    assert [next(stream).instance_id for _ in range(BATCH_ROWS + 5)] == [
        str(n) for n in range(BATCH_ROWS + 5)
    ]
    assert len(taken) == 2 * BATCH_ROWS


def test_odd_texts_are_neither_a_crash_nor_a_gap(train: Train) -> None:
    texts, labels = opinions(40)
    odd = ["lone \ud800 surrogate", "", "   ", "👍👍", "素晴らしい映画", "<b>great</b>", "x" * 20000]
    fitted = train("nominal", rows_of([*texts, *odd], [*labels, *["good"] * len(odd)]))
    predictions = fitted.of(odd)
    assert len(predictions) == len(odd)
    assert all(p.confidence is not None and math.isfinite(p.confidence) for p in predictions)
    assert fitted.recorder.warnings == ["2 of 47 train items have no text and were left out."]


def test_words_of_scripts_without_spaces_are_told_apart(train: Train) -> None:
    draw = random.Random(0)
    labels = [draw.choice(("good", "bad")) for _ in range(60)]
    texts = [
        ("とても素晴らしい" if label == "good" else "本当にひどい") + draw.choice("映画店本人物") * 2
        for label in labels
    ]
    told = train("nominal", rows_of(texts, labels)).of(["これは素晴らしいです", "これはひどいです"])
    assert [prediction.payload["label"] for prediction in told] == ["good", "bad"]


@pytest.mark.parametrize("texts", [[""] * 20, [" \n "] * 20])
def test_texts_that_are_all_empty_are_refused_with_advice(train: Train, texts: list[str]) -> None:
    with pytest.raises(TrainerError, match="All 20 train items have empty texts") as refusal:
        train("nominal", rows_of(texts, ["good", "bad"] * 10))
    assert refusal.value.code == "validation_failed"
    assert "text_key" in refusal.value.next_step


def test_texts_of_stop_words_only_are_refused_with_advice(train: Train) -> None:
    with pytest.raises(TrainerError, match="found no words") as refusal:
        train(
            "nominal",
            rows_of(["the of and"] * 20, ["good", "bad"] * 10),
            vectorizer_kwargs={"stop_words": "english"},
        )
    assert refusal.value.code == "validation_failed"
    assert "stop_words" in refusal.value.next_step


def test_pictures_are_refused_instead_of_learning_from_their_names(train: Train) -> None:
    rows = [{**row, "media": f"ab/{row['instance_id']}.png"} for row in rows_of(*opinions(20))]
    with pytest.raises(TrainerError, match="The items are pictures") as refusal:
        train("nominal", rows)
    assert refusal.value.code == "validation_failed"


def test_one_label_or_none_cannot_be_learnt(train: Train) -> None:
    with pytest.raises(TrainerError, match=r"Schema 's' has 1 distinct label\(s\) in the data"):
        train("nominal", rows_of(["a text"] * 20, ["good"] * 20))
    with pytest.raises(TrainerError, match="No resolved annotations to train on"):
        train("nominal", rows_of(["a text"] * 20))


def test_a_label_with_a_single_example_is_warned_of(train: Train) -> None:
    texts, _ = opinions(40)
    fitted = train("nominal", rows_of(texts, ["bad", *["good"] * 39]))
    assert any("Only one train item has the label 'bad'" in line for line in fitted.recorder.warnings)
    assert fitted.json("calibration.json")["reason"].startswith("40 train rows")


def test_several_labels_with_a_single_example_are_warned_of_in_one_sentence(train: Train) -> None:
    texts, _ = opinions(41)
    fitted = train("nominal", rows_of(texts, ["bad", "sad", *["good"] * 39]))
    told = "Only one train item has each of the labels 'bad', 'sad': what is predicted of them is not"
    assert any(told in line for line in fitted.recorder.warnings)


def test_the_warnings_of_a_library_reach_the_log_once(train: Train) -> None:
    fitted = train(
        "nominal", rows_of(*opinions(80)), classifier="MLPClassifier", classifier_kwargs={"max_iter": 1}
    )
    assert len([line for line in fitted.recorder.warnings if "ConvergenceWarning" in line]) == 1


def test_a_model_that_was_not_fitted_says_so(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="There is no model yet"):
        next(SklearnText().predict([{"instance_id": "1", "text": "x"}]))
