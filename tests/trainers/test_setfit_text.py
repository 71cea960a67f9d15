from __future__ import annotations

import json
import math
import os
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from parts import need_module
from trainer_samples import Fitted, Recorder, fit_in, opinions, rows_of

from potato_ray.trainers.base import Prediction, SchemeSpec, TrainerError
from potato_ray.trainers.params import check_params
from potato_ray.trainers.setfit_text import SetFitText

need_module("torch", "transformers", "sentence_transformers", "setfit")

TEXTS, LABELS = opinions(24)
SUBJECTS = SchemeSpec("s", "radio", "nominal", ("room", "kettle", "soup"))
"""Three labels whose order is not that of the alphabet."""


class Stopped(BaseException):
    """As a worker that was told to stop raises it."""


class Listener(Recorder):
    """Tells the trainer to stop at step `until`."""

    def __init__(self, until: float = math.inf) -> None:
        super().__init__()
        self.until = until

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None:
        super().progress(current, total, eta_s)
        if current >= self.until:
            raise Stopped


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a sentence model, `sentences`, and a plain transformer, `bert`."""
    from tiny_models import tiny_bert, tiny_sentence_model

    folder = tmp_path_factory.mktemp("models")
    tiny_sentence_model(folder / "sentences")
    tiny_bert(folder / "bert")
    return folder


@pytest.fixture(scope="module")
def fitted(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A training on good and bad."""
    return fit(tmp_path_factory.mktemp("run"), models / "sentences", max_steps=10)


def fit(
    folder: Path,
    model: Path,
    targets: Sequence[Any] = LABELS,
    scheme: str | SchemeSpec = "nominal",
    recorder: Recorder | None = None,
    **params: Any,
) -> Fitted:
    """Train on the first texts, as many as there are targets."""
    rows = rows_of(TEXTS[: len(targets)], targets)
    return fit_rows(folder, model, rows, scheme, recorder, **params)


def fit_rows(
    folder: Path,
    model: Path,
    rows: Sequence[Mapping[str, Any]],
    scheme: str | SchemeSpec,
    recorder: Recorder | None = None,
    **params: Any,
) -> Fitted:
    given = {"model_name": str(model), "max_steps": 3, **params}
    assert check_params(SetFitText, given) == []
    return fit_in(folder, SetFitText, scheme, {"train": rows}, given, recorder=recorder)


def loaded(folder: Path) -> Any:
    return SetFitText.load(folder / "artifacts")


def answers(trainer: Any, texts: Sequence[str] = TEXTS) -> list[Prediction]:
    return list(trainer.predict(rows_of(texts)))


def test_it_learns_labels_and_predicts_the_same_after_loading(
    fitted: Fitted, models: Path, tmp_path: Path
) -> None:
    assert fitted.metrics["train_accuracy"] > 0.7
    assert answers(SetFitText.load(fitted.artifacts)) == answers(fitted.trainer)


def test_its_steps_name_of_a_models_folder_the_last_part(fitted: Fitted) -> None:
    assert {"loading sentences", "training sentences on pairs of texts"} <= set(fitted.recorder.steps)


def test_the_same_seed_gives_the_same_model(fitted: Fitted, models: Path, tmp_path: Path) -> None:
    again = fit(tmp_path, models / "sentences", max_steps=10)
    assert again.metrics["train_loss"] == fitted.metrics["train_loss"]
    assert answers(again.trainer) == answers(fitted.trainer)


def test_the_label_is_the_most_probable_one_by_the_labels_own_names(models: Path, tmp_path: Path) -> None:
    subjects = [SUBJECTS.labels[n % 3] for n in range(30)]
    rows = rows_of([f"the {subject} was fine" for subject in subjects], subjects)
    run = fit_rows(tmp_path, models / "sentences", rows, SUBJECTS, max_steps=20)
    assert run.trainer.label_order() == list(SUBJECTS.labels)
    for prediction, subject in zip(run.trainer.predict(rows), subjects, strict=True):
        by_label = prediction.payload["probabilities"]
        assert list(by_label) == list(SUBJECTS.labels)
        assert sum(by_label.values()) == pytest.approx(1)
        assert prediction.payload["label"] == max(by_label, key=by_label.get) == subject
        assert prediction.confidence == by_label[subject]


def test_grades_keep_their_order_and_their_probabilities_sum_to_one(models: Path, tmp_path: Path) -> None:
    run = fit(tmp_path, models / "sentences", ["12345"[n % 5] for n in range(24)], "ordinal")
    assert run.trainer.label_order() == list("12345")
    assert all(sum(p.payload["probabilities"].values()) == pytest.approx(1) for p in answers(run.trainer))


def test_sets_of_labels_have_a_probability_for_each_label(models: Path, tmp_path: Path) -> None:
    sets = [[["price"], ["quality", "service"], []][n % 3] for n in range(24)]
    run = fit(tmp_path, models / "sentences", sets, "multilabel")
    for prediction in answers(loaded(tmp_path)):
        by_label = prediction.payload["probabilities"]
        assert list(by_label) == ["service", "price", "quality"]
        assert prediction.payload["labels"] == sorted(label for label, p in by_label.items() if p >= 0.5)
    assert "train_subset_accuracy" in run.metrics


def test_nothing_that_is_saved_has_to_be_unpickled(fitted: Fitted) -> None:
    files = [path for path in fitted.artifacts.rglob("*") if path.is_file()]
    names = {path.relative_to(fitted.artifacts).as_posix() for path in files}
    assert {"model/model.safetensors", "model/tokenizer.json", "model.skops", "model_card.json"} <= names
    assert {path.suffix for path in files} <= {".json", ".safetensors", ".skops", ".txt"}


def test_the_card_says_what_the_model_is(fitted: Fitted, models: Path) -> None:
    card = fitted.json("model_card.json")
    assert card["base_model"] == {"name": str(models / "sentences"), "revision": ""}
    assert (card["trainer"], card["label_order"]) == ("setfit", ["good", "bad"])
    assert (card["n_train"], card["steps"], card["n_pairs"]) == (24, 10, 160)
    assert {"setfit", "sentence-transformers", "torch", "scikit-learn"} <= set(card["versions"])


def test_progress_comes_with_the_time_that_is_left_and_the_loss_as_a_curve(fitted: Fitted) -> None:
    progressed, curve = fitted.recorder.progressed, fitted.recorder.curves["train_loss"]
    assert [(step, total) for step, total, _ in progressed] == [(n, 10) for n in range(1, 11)]
    assert progressed[-1][2] == 0
    assert [step for step, _ in curve] == list(range(1, 11))


def test_few_texts_are_trained_on_no_longer_than_epochs_says(models: Path, tmp_path: Path) -> None:
    run = fit(tmp_path, models / "sentences", ["good", "bad"] * 3, max_steps=500, epochs=2)
    # 9 pairs of unlike texts, and the 6 of alike ones brought to 9.
    assert (run.metrics["n_pairs"], run.metrics["train_steps"]) == (18, 4)


def test_a_plain_transformer_gets_the_mean_of_its_last_layer(models: Path, tmp_path: Path) -> None:
    run = fit(tmp_path, models / "bert")
    assert "the mean of its last layer" in run.recorder.said
    assert answers(loaded(tmp_path)) == answers(run.trainer)


def test_longer_texts_are_cut_as_max_length_says_also_after_loading(models: Path, tmp_path: Path) -> None:
    fit(tmp_path, models / "sentences", max_length=8)
    one, other = answers(loaded(tmp_path), [f"it was a great kettle and {end}" for end in ("a", "b")])
    assert one.payload == other.payload


def test_what_the_libraries_warn_of_stands_in_the_log(models: Path, tmp_path: Path) -> None:
    asked = fit(tmp_path, models / "sentences", max_length=1000, head={"max_iter": 1})
    assert any("max_length is 1000" in each for each in asked.recorder.warnings)
    assert any("ConvergenceWarning" in each for each in asked.recorder.warnings)


def test_nothing_is_asked_of_the_network_and_nothing_written_beside_the_artifacts(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    fit(tmp_path, models / "sentences")
    answers(loaded(tmp_path))
    assert list(home.iterdir()) == []


def refuse(*_: Any) -> NoReturn:
    raise AssertionError("the network was asked")


def test_the_libraries_say_nothing_and_leave_no_switch_behind(
    models: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fit(tmp_path, models / "bert")
    answers(loaded(tmp_path))
    assert tuple(capfd.readouterr()) == ("", "")
    assert "ACCELERATE_USE_CPU" not in os.environ


def test_a_training_that_is_told_to_stop_leaves_the_body_so_far(models: Path, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        fit(tmp_path, models / "sentences", recorder=Listener(3), max_steps=9)
    assert [path.name for path in (tmp_path / "artifacts").iterdir()] == ["partial"]
    note = json.loads((tmp_path / "artifacts" / "partial" / "partial.json").read_text("utf-8"))
    assert (note["step"], note["of_steps"]) == (3, 9)
    assert (tmp_path / "artifacts" / "partial" / "model.safetensors").is_file()


def test_a_training_that_is_stopped_before_its_first_step_leaves_nothing(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: Any, **__: Any) -> NoReturn:
        raise Stopped

    monkeypatch.setattr("setfit.Trainer.train_embeddings", stopped)
    with pytest.raises(Stopped):
        fit(tmp_path, models / "sentences")
    assert list((tmp_path / "artifacts").iterdir()) == []


def test_a_loss_that_is_no_number_ends_it_with_the_step_and_advice(models: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    shutil.copytree(models / "sentences", broken)
    weights = {name: w * math.nan for name, w in load_file(broken / "model.safetensors").items()}
    save_file(weights, broken / "model.safetensors", {"format": "pt"})
    with pytest.raises(TrainerError, match=r"The loss became nan at step 1,") as failure:
        fit(tmp_path, broken, body_learning_rate=2e-5)
    assert failure.value.code == "fit_failed"
    assert failure.value.next_step == "Lower body_learning_rate, to 2e-06 for a start."


@pytest.mark.parametrize(
    ("targets", "words"),
    [(["good"] * 4, "1 distinct label"), (["good", "bad", "fair", "poor"], "No two of the 4 train items")],
)
def test_labels_that_nothing_can_be_learnt_from_are_refused(
    targets: list[str], words: str, models: Path, tmp_path: Path
) -> None:
    with pytest.raises(TrainerError, match=words) as refusal:
        fit(tmp_path, models / "sentences", targets)
    assert refusal.value.code == "validation_failed"


def test_pairs_of_texts_are_refused_and_not_offered(models: Path, tmp_path: Path) -> None:
    scheme = SchemeSpec("s", "pairwise", "nominal", ("A", "B"))
    rows = [{**row, "texts": [row["text"], "a room"]} for row in rows_of(TEXTS, ["A", "B"] * 12)]
    with pytest.raises(TrainerError, match="pairs of texts") as refusal:
        fit_rows(tmp_path, models / "sentences", rows, scheme)
    assert "sklearn-text" in refusal.value.next_step
    assert "pairwise" not in SetFitText.annotation_types


def with_module(source: Path, folder: Path, **module: Any) -> Path:
    """A copy of a sentence model with one more part."""
    shutil.copytree(source, folder)
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    (folder / "modules.json").write_text(json.dumps([*modules, {"idx": 9, "name": "9", **module}]))
    return folder


def test_a_model_with_code_of_its_own_is_refused_and_not_run(models: Path, tmp_path: Path) -> None:
    evil = with_module(models / "sentences", tmp_path / "evil", path="", type="evil.Body")
    (evil / "evil.py").write_text(f"open({str(tmp_path / 'mark')!r}, 'w')")
    with pytest.raises(TrainerError, match="code of a model is never run"):
        fit(tmp_path, evil)
    assert not (tmp_path / "mark").exists()


def test_a_layer_that_calls_any_function_is_refused(models: Path, tmp_path: Path) -> None:
    dense = "sentence_transformers.models.Dense"
    evil = with_module(models / "sentences", tmp_path / "evil", path="9_Dense", type=dense)
    (evil / "9_Dense").mkdir()
    (evil / "9_Dense" / "config.json").write_text('{"activation_function": "os.getcwd"}')
    with pytest.raises(TrainerError, match=r"its activation os\.getcwd"):
        fit(tmp_path, evil)


def test_a_list_of_parts_that_says_no_type_is_refused(models: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match="cannot be read"):
        fit(tmp_path, with_module(models / "sentences", tmp_path / "torn", path=""))


def test_a_card_and_a_head_that_order_the_labels_otherwise_are_not_loaded(
    fitted: Fitted, tmp_path: Path
) -> None:
    shutil.copytree(fitted.artifacts, tmp_path / "artifacts")
    card = fitted.json("model_card.json")
    card["label_order"].reverse()
    (tmp_path / "artifacts" / "model_card.json").write_text(json.dumps(card))
    with pytest.raises(TrainerError, match="other labels, or in another order"):
        loaded(tmp_path)


def test_a_missing_package_is_told_with_the_line_that_installs_it(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "setfit", None)
    with pytest.raises(TrainerError, match="setfit") as refusal:
        fit(tmp_path, models / "sentences")
    assert refusal.value.code == "missing_dependency"
    assert refusal.value.next_step.endswith("-m pip install setfit skops")


def test_the_head_takes_what_its_members_say(models: Path, tmp_path: Path) -> None:
    run = fit(tmp_path, models / "sentences", head={"C": 0.5, "class_weight": "balanced"})
    head = cast("SetFitText", run.trainer)._fitted().estimators[0].get_params()
    assert (head["C"], head["class_weight"], head["max_iter"]) == (0.5, "balanced", 1000)


@pytest.mark.parametrize("given", [{"max_steps": -1}, {"max_steps": 0}, {"head": {"multi_target": "x"}}])
def test_parameters_that_would_not_end_or_contradict_the_scheme_are_refused(given: dict[str, Any]) -> None:
    assert len(check_params(SetFitText, given)) == 1
