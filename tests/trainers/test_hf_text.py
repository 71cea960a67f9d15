"""hf-text-classification on a tiny transformer: every kind of scheme, what is saved, and how it fails."""

from __future__ import annotations

import importlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parts import need_module
from sklearn.metrics import cohen_kappa_score, f1_score, mean_absolute_error
from tiny_models import tiny_bert
from trainer_samples import BAD, GOOD, Fitted, Recorder, fit_in, rows_of

from potato_ray.job.failures import explain
from potato_ray.trainers import fine_tuning, model_files
from potato_ray.trainers.base import Row, SchemeSpec, TrainerError
from potato_ray.trainers.hf_text import HfTextClassification
from potato_ray.trainers.registry import load_trainer
from potato_ray.trainers.text_objective import Objective

need_module("torch", "transformers", "peft", "accelerate")
torch: Any = importlib.import_module("torch")
transformers: Any = importlib.import_module("transformers")

QUICK = {"learning_rate": 3e-3, "epochs": 8, "batch_size": 8, "early_stopping": 0, "precision": "fp32"}
Tune = Callable[..., Fitted]


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """On matrices this small, threads wait for each other more than they compute."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_bert(tmp_path_factory.mktemp("base") / "bert"))


@pytest.fixture
def tune(tmp_path: Path, base: str) -> Tune:
    """Fine-tune the tiny model: tune(kind or scheme, train rows, val rows, **params)."""

    def run(
        scheme: str | SchemeSpec,
        train: Sequence[Row],
        val: Sequence[Row] = (),
        seed: int = 0,
        recorder: Recorder | None = None,
        **params: Any,
    ) -> Fitted:
        splits = {"train": train, "val": val}
        given = {"model_name": base, **QUICK, **params}
        return fit_in(tmp_path, HfTextClassification, scheme, splits, given, seed, recorder)

    return run


def opinions(n: int, seed: int = 0) -> tuple[list[str], list[str]]:
    """Short texts and their label, good or bad."""
    draw = random.Random(seed)
    labels = [draw.choice(("good", "bad")) for _ in range(n)]
    things = ("kettle", "phone", "room", "soup")
    texts = [
        f"the {draw.choice(things)} was {draw.choice(GOOD if each == 'good' else BAD)}" for each in labels
    ]
    return texts, labels


def labelled(n: int, seed: int = 0) -> list[Row]:
    return rows_of(*opinions(n, seed=seed))


def accuracy(fitted: Fitted, n: int = 40, seed: int = 9) -> float:
    texts, labels = opinions(n, seed=seed)
    said = [prediction.payload["label"] for prediction in fitted.of(texts)]
    return sum(a == b for a, b in zip(said, labels, strict=True)) / n


def test_opinions_are_learnt_and_the_best_epoch_on_val_is_kept(tune: Tune) -> None:
    fitted = tune("nominal", labelled(80), labelled(30, seed=1))
    assert accuracy(fitted) >= 0.9
    curve = dict(fitted.recorder.curves["val_macro_f1"])
    steps_an_epoch = max(curve) / QUICK["epochs"]
    assert curve[round(fitted.metrics["train_best_epoch"] * steps_an_epoch)] == max(curve.values())
    assert fitted.metrics["n_val_chosen_on"] == 30
    assert not (fitted.artifacts / "checkpoints").exists()


def test_a_training_does_not_end_early_before_its_learning_rate_is_reached(tune: Tune) -> None:
    fitted = tune("nominal", labelled(40), labelled(20, seed=1), epochs=12, warmup=0.5, early_stopping=1)
    assert fitted.metrics["train_epochs"] > 6
    best = fitted.metrics["train_best_epoch"]
    assert f"The model of epoch {best:.0f} of" in fitted.recorder.said


def test_an_early_end_is_told_with_its_epoch(tune: Tune) -> None:
    rows = labelled(40)
    params = {"learning_rate": 1e-8, "epochs": 30, "warmup": 0.0, "early_stopping": 2}
    fitted = tune("nominal", rows, labelled(20, seed=1), **params)
    ended = fitted.metrics["train_epochs"]
    assert ended < 30
    [told] = [line for _, line in fitted.recorder.lines if line.startswith("Stopped early")]
    assert f"after epoch {ended:.0f} of 30: 2 in a row" in told


MEASURES: dict[str, tuple[str, Callable[[Any, Any], float]]] = {
    "nominal": ("macro_f1", lambda truth, said: f1_score(truth, said, average="macro")),
    "ordinal": ("quadratic_kappa", lambda truth, said: cohen_kappa_score(truth, said, weights="quadratic")),
    "multilabel": ("micro_f1", lambda truth, said: f1_score(truth, said, average="micro")),
    "continuous": ("mae", mean_absolute_error),
}
TARGETS: dict[str, Sequence[Any]] = {
    "nominal": ["good", "bad"],
    "ordinal": ["1", "3", "5", "4"],
    "multilabel": [["price"], ["price", "service"], []],
    "continuous": [0.0, 30.0, 100.0],
}


@pytest.mark.parametrize("kind", sorted(MEASURES))
def test_the_curve_of_val_is_the_score_of_what_is_said_of_val(tune: Tune, kind: str) -> None:
    # Of unlike lengths, so that batches by length put the rows in another order.
    texts = [f"the {'very ' * (7 * n % 11)}{(*GOOD, *BAD)[n % 10]} soup" for n in range(40)]
    rows = rows_of(texts, [TARGETS[kind][n % len(TARGETS[kind])] for n in range(40)])
    fitted = tune(kind, rows, rows, epochs=1, calibrate=False)
    name, measure = MEASURES[kind]
    field = {"multilabel": "labels", "continuous": "value"}.get(kind, "label")
    said = [prediction.payload[field] for prediction in fitted.of(texts)]
    truth = [row["targets"]["s"] for row in rows]
    if kind == "multilabel":
        said, truth = (
            [[name in each for name in ("price", "service")] for each in sets] for sets in (said, truth)
        )
    assert fitted.recorder.curves[f"val_{name}"][-1][1] == pytest.approx(measure(truth, said), abs=1e-4)


def test_what_it_says_survives_saving_and_loading(tune: Tune) -> None:
    fitted = tune("nominal", labelled(60), labelled(60, seed=1))
    texts = opinions(20, seed=5)[0]
    loaded = load_trainer(fitted.artifacts)
    assert loaded.label_order() == fitted.trainer.label_order() == ["good", "bad"]
    again = list(loaded.predict(rows_of(texts)))
    for before, after in zip(fitted.of(texts), again, strict=True):
        assert after.payload["label"] == before.payload["label"]
        assert after.payload["probabilities"] == pytest.approx(before.payload["probabilities"], abs=1e-5)


def test_the_label_is_the_most_probable_one_and_its_name_is_in_the_models_config(tune: Tune) -> None:
    fitted = tune("nominal", labelled(60))
    for prediction in fitted.of(opinions(20, seed=5)[0]):
        chances = prediction.payload["probabilities"]
        assert max(chances, key=chances.get) == prediction.payload["label"]
        assert prediction.confidence == max(chances.values())
    config = json.loads((fitted.artifacts / "model" / "config.json").read_text("utf-8"))
    assert config["id2label"] == {"0": "good", "1": "bad"}
    assert config["problem_type"] == "single_label_classification"
    assert (fitted.artifacts / "model" / "model.safetensors").is_file()
    assert not list(fitted.artifacts.rglob("*.bin"))


def test_the_saved_model_says_the_same_without_this_program(tune: Tune) -> None:
    fitted = tune("nominal", labelled(60))
    folder = str(fitted.artifacts / "model")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    texts = opinions(10, seed=5)[0]
    with torch.inference_mode():
        said = model(**tokenizer(texts, padding=True, return_tensors="pt")).logits.argmax(dim=1).tolist()
    assert [model.config.id2label[n] for n in said] == [p.payload["label"] for p in fitted.of(texts)]


def test_grades_are_learnt_in_their_order(tune: Tune) -> None:
    words = ("useless", "poor", "okay", "nice", "wonderful")
    rows = rows_of(
        [f"it was {words[n % 5]} {'very ' * (n % 3)}" for n in range(100)],
        [f"{n % 5 + 1}" for n in range(100)],
    )
    fitted = tune("ordinal", rows, rows[:20], epochs=20, learning_rate=5e-3)
    said = fitted.of([f"it was {word}" for word in words])
    assert [p.payload["label"] for p in said] == ["1", "2", "3", "4", "5"]
    assert sum(said[0].payload["probabilities"].values()) == pytest.approx(1.0)
    assert "val_quadratic_kappa" in fitted.recorder.curves


def test_sets_of_labels_are_learnt_better_than_by_naming_them_all(tune: Tune) -> None:
    draw = random.Random(0)
    told = {"price": "cheap", "service": "staff", "quality": "works"}
    sets = [sorted(draw.sample(sorted(told), draw.randint(0, 3))) for _ in range(120)]
    rows = rows_of([" ".join(["it was", *(told[each] for each in labels)]) for labels in sets], sets)
    fitted = tune("multilabel", rows, rows[:24], epochs=4, learning_rate=1e-2)
    assert max(score for _, score in fitted.recorder.curves["val_micro_f1"]) > 0.75  # naming all: 0.66
    for prediction in fitted.trainer.predict(rows[:24]):
        chances = prediction.payload["probabilities"]
        assert prediction.payload["labels"] == sorted(name for name, p in chances.items() if p >= 0.5)


def test_numbers_stay_on_their_scale(tune: Tune) -> None:
    rows = rows_of(*zip(*[("it was wonderful", 100.0), ("it was useless", 0.0)] * 40, strict=True))
    fitted = tune("continuous", rows, rows[:20], epochs=6)
    low, high = (p.payload["value"] for p in fitted.of(["it was useless", "it was wonderful"]))
    assert 0.0 <= low < 25.0
    assert 75.0 < high <= 100.0
    assert fitted.trainer.label_order() == []


def test_pairs_are_read_together(tune: Tune) -> None:
    scheme = SchemeSpec("s", "pairwise", "nominal", ("A", "B"))
    good, bad = "it was wonderful", "it was useless"
    pairs = [((good, bad), "A"), ((bad, good), "B")] * 40
    rows = [
        {"instance_id": f"i{n}", "text": " ".join(texts), "texts": list(texts), "targets": {"s": label}}
        for n, (texts, label) in enumerate(pairs)
    ]
    fitted = tune(scheme, rows, rows[:20], epochs=15)
    assert [p.payload["label"] for p in fitted.trainer.predict(rows[:4])] == ["A", "B", "A", "B"]


def test_the_same_seed_gives_the_same_model_and_another_seed_another(tune: Tune) -> None:
    rows, val = labelled(40), labelled(20, seed=1)
    first, again, other = (tune("nominal", rows, val, seed=seed, epochs=2) for seed in (3, 3, 4))
    same = ("train_loss", "train_best_epoch")
    assert [first.metrics[name] for name in same] == [again.metrics[name] for name in same]
    assert first.recorder.curves == again.recorder.curves
    assert first.metrics["train_loss"] != other.metrics["train_loss"]


def test_two_batches_accumulated_teach_as_one_of_both(tune: Tune, tmp_path: Path) -> None:
    still = tiny_bert(tmp_path / "still")
    config = json.loads((still / "config.json").read_text("utf-8"))
    dropouts = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (still / "config.json").write_text(json.dumps({**config, **dropouts}), "utf-8")
    texts = opinions(20, seed=5)[0]

    def taught(**params: Any) -> list[float]:
        fitted = tune("nominal", labelled(32), model_name=str(still), epochs=3, warmup=0.0, **params)
        chances = [p.payload["probabilities"]["good"] for p in fitted.of(texts)]
        # AdamW does as much for a loss of twice the size, so that is looked at too.
        return [*chances, *(loss for _, loss in fitted.recorder.curves["train_loss"])]

    whole = taught(batch_size=32)
    assert len(whole) == len(texts) + 3
    assert taught(batch_size=16, gradient_accumulation=2) == pytest.approx(whole, abs=1e-3)


def test_lora_saves_its_matrices_alone_and_finds_its_base_again(tune: Tune, base: str) -> None:
    fitted = tune("nominal", labelled(80), labelled(20, seed=1), lora={"r": 8}, learning_rate=1e-2, epochs=12)
    assert accuracy(fitted) >= 0.85
    card = fitted.json(model_files.CARD)
    assert (card["base_model"]["name"], card["base_model"]["revision"]) == (base, "")
    assert (card["lora"], card["params"]["lora"]["r"], card["params"]["lora"]["alpha"]) == (True, 8, 32)
    assert sorted(p.name for p in (fitted.artifacts / "adapter").glob("*.safetensors")) == [
        "adapter_model.safetensors"
    ]
    assert not (fitted.artifacts / "model").exists()
    texts = opinions(20, seed=5)[0]
    again = [p.payload["label"] for p in load_trainer(fitted.artifacts).predict(rows_of(texts))]
    assert again == [p.payload["label"] for p in fitted.of(texts)]


def test_lora_beside_a_base_that_lacks_a_layer_says_the_same_when_loaded(tune: Tune, tmp_path: Path) -> None:
    base = tiny_bert(tmp_path / "bare")
    model = transformers.BertModel.from_pretrained(str(base), add_pooling_layer=False)
    model.save_pretrained(str(base))
    fitted = tune("nominal", labelled(40), model_name=str(base), lora=True, epochs=2)
    texts = opinions(20, seed=5)[0]
    again = load_trainer(fitted.artifacts).predict(rows_of(texts))
    for before, after in zip(fitted.of(texts), again, strict=True):
        assert after.payload["probabilities"] == pytest.approx(before.payload["probabilities"], abs=1e-5)


def test_an_adapter_is_not_put_beside_another_base(tune: Tune, tmp_path: Path) -> None:
    base = tiny_bert(tmp_path / "base")
    fitted = tune("nominal", labelled(20), model_name=str(base), lora=True, epochs=1)
    config = json.loads((fitted.artifacts / "adapter" / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == str(base)
    model = transformers.BertModel.from_pretrained(str(base))
    with torch.no_grad():
        model.pooler.dense.weight += 1.0
    model.save_pretrained(str(base))
    with pytest.raises(TrainerError, match="another one than the adapter was trained beside"):
        load_trainer(fitted.artifacts)


def test_an_adapter_without_its_weights_is_refused(tune: Tune) -> None:
    fitted = tune("nominal", labelled(20), lora=True, epochs=1)
    (fitted.artifacts / "adapter" / "adapter_model.safetensors").unlink()
    with pytest.raises(TrainerError, match=r"adapter_model\.safetensors") as refused:
        load_trainer(fitted.artifacts)
    assert refused.value.code == "validation_failed"


def test_a_saved_model_of_other_labels_or_without_its_last_layer_is_refused(tune: Tune) -> None:
    fitted = tune("nominal", labelled(20), epochs=1)
    folder = fitted.artifacts / "model"
    config = json.loads((folder / "config.json").read_text("utf-8"))
    swapped = {**config, "id2label": {"0": "bad", "1": "good"}}
    (folder / "config.json").write_text(json.dumps(swapped), "utf-8")
    with pytest.raises(TrainerError, match="its outputs stand for"):
        load_trainer(fitted.artifacts)
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    transformers.BertModel.from_pretrained(str(folder)).save_pretrained(str(folder))
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(TrainerError, match="lacks the weights of classifier"):
        load_trainer(fitted.artifacts)


def test_a_rare_label_weighs_as_much_in_a_batch_of_one() -> None:
    objective = Objective("nominal", ("often", "rare"))
    weights = torch.tensor(objective.weights(np.array([0] * 9 + [1]), "balanced"))
    outputs, rare = torch.tensor([[1.0, 0.0]]), torch.tensor([1])
    plain = objective.loss(outputs, rare, None)
    assert float(objective.loss(outputs, rare, weights) / plain) == pytest.approx(5.0)


@pytest.mark.parametrize("target", ["nowhere", "LayerNorm", "classifier"])
def test_layers_that_lora_cannot_be_put_beside_are_refused_with_those_that_it_can(
    tune: Tune, target: str
) -> None:
    with pytest.raises(TrainerError, match=f"cannot be put beside the layers {target} of") as refused:
        tune("nominal", labelled(20), lora={"targets": [target]})
    assert refused.value.code == "validation_failed"
    assert "Name some of query, key, value, dense in lora.targets" in refused.value.next_step


def test_four_bits_need_a_gpu_and_no_model_is_loaded_for_nothing(tune: Tune) -> None:
    with pytest.raises(TrainerError, match="needs a CUDA GPU, and this run has cpu") as refused:
        tune("nominal", labelled(20), lora={"quantize": "4bit"}, model_name="/no/such/folder")
    assert refused.value.code == "unfitting_device"


def test_a_folder_that_holds_no_model_is_refused_in_a_sentence(tune: Tune, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TrainerError) as refused:
        tune("nominal", labelled(20), model_name=str(empty))
    assert refused.value.code == "validation_failed"
    assert "config.json" in refused.value.message


def test_torn_weights_are_named_with_their_folder(tune: Tune, base: str, tmp_path: Path) -> None:
    torn = tiny_bert(tmp_path / "torn")
    weights = torn / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(TrainerError) as refused:
        tune("nominal", labelled(20), model_name=str(torn))
    assert refused.value.code == "validation_failed"
    assert str(torn) in refused.value.message


def test_a_loss_that_is_no_number_ends_the_training_at_its_step(tune: Tune, tmp_path: Path) -> None:
    sick = tiny_bert(tmp_path / "sick")
    model = transformers.BertModel.from_pretrained(str(sick))
    with torch.no_grad():
        model.embeddings.word_embeddings.weight[:] = float("nan")
    model.save_pretrained(str(sick))
    with pytest.raises(
        TrainerError, match=r"The loss became nan at step 1, with a learning rate of 0\.5"
    ) as end:
        tune("nominal", labelled(40), model_name=str(sick), learning_rate=0.5)
    assert end.value.code == "fit_failed"
    assert "Lower learning_rate, to 0.05" in end.value.next_step


def test_a_gpu_out_of_memory_keeps_its_advice(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")

    monkeypatch.setattr(Objective, "loss", full)
    with pytest.raises(torch.OutOfMemoryError) as end:
        tune("nominal", labelled(20))
    failure = explain(end.value, HfTextClassification.name)
    assert failure.code == "out_of_memory"
    assert "gradient_accumulation" in failure.next_step


class Told(BaseException):
    """As a worker is told to stop."""


class StoppingRecorder(Recorder):
    """Stops the training as a signal does, after some steps."""

    def __init__(self, after_steps: int) -> None:
        super().__init__()
        self.after_steps = after_steps

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None:
        super().progress(current, total, eta_s)
        if current >= self.after_steps and self.phases[-1] == "fitting":
            raise Told


def stopped(tune: Tune, tmp_path: Path, val: Sequence[Row], after_steps: int) -> dict[str, Any]:
    with pytest.raises(Told):
        tune("nominal", labelled(40), val, recorder=StoppingRecorder(after_steps), epochs=6)
    artifacts = tmp_path / "artifacts"
    assert sorted(path.name for path in artifacts.iterdir()) == ["partial"]
    assert (artifacts / "partial" / "model.safetensors").is_file()
    assert not list(artifacts.rglob("*.bin"))
    return dict(json.loads((artifacts / "partial" / "partial.json").read_text("utf-8")))


def test_a_training_that_is_stopped_leaves_its_best_checkpoint_as_partial(tune: Tune, tmp_path: Path) -> None:
    note = stopped(tune, tmp_path, labelled(20, seed=1), after_steps=13)
    assert note["chosen_on_val"] is True
    assert note["step"] in (5, 10)
    assert note["of_steps"] == 30


def test_without_val_the_model_stays_as_it_was_when_stopped(tune: Tune, tmp_path: Path) -> None:
    note = stopped(tune, tmp_path, (), after_steps=7)
    assert (note["chosen_on_val"], note["step"]) == (False, 7)


def test_sixteen_bits_learn_the_same(tune: Tune) -> None:
    fitted = tune("nominal", labelled(80), labelled(30, seed=1), precision="bf16")
    assert accuracy(fitted) >= 0.9
    dtypes = {each.dtype for each in load_trainer(fitted.artifacts)._classifier.model.parameters()}  # type: ignore[attr-defined]
    assert dtypes == {torch.float32}


def test_few_val_items_choose_no_epoch(tune: Tune) -> None:
    fitted = tune("nominal", labelled(40), labelled(9, seed=1), epochs=3)
    assert fitted.metrics["n_val_chosen_on"] == 0
    assert fitted.metrics["train_best_epoch"] == fitted.metrics["train_epochs"] == 3
    assert "9 val items; 10 are needed" in fitted.recorder.said


def test_val_items_whose_answer_no_train_item_has_choose_nothing_and_are_told_of(tune: Tune) -> None:
    val = rows_of(["neither here nor there", *opinions(12, seed=1)[0]], ["mixed", *opinions(12, seed=1)[1]])
    fitted = tune("nominal", labelled(40), val, epochs=1)
    assert fitted.metrics["n_val_chosen_on"] == 12
    [warning] = fitted.recorder.warnings
    assert warning.startswith("1 of 13 val items have an answer that no train item has")


def test_curves_progress_and_a_time_to_go_are_told(tune: Tune) -> None:
    recorder = tune("nominal", labelled(40), labelled(20, seed=1)).recorder
    assert len(recorder.curves["train_loss"]) > 5
    assert {"val_loss", "val_macro_f1"} <= set(recorder.curves)
    assert [done for done, _, _ in recorder.progressed[3:8]] == [4, 5, 5, 6, 7]  # told anew with the epoch
    told = [left for done, total, left in recorder.progressed if (done, total) == (10, 40)]
    assert all(left is not None and left > 0 for left in told)
    assert told
    assert "Estimated memory: " in recorder.said
    assert recorder.warnings == []


def test_a_handful_of_texts_gets_many_epochs_and_many_texts_few() -> None:
    assert fine_tuning.usual_epochs(16, 16) == 40
    assert fine_tuning.usual_epochs(500, 16) == 8
    assert fine_tuning.usual_epochs(100_000, 16) == 4


@pytest.mark.parametrize(("batch_size", "gradient_accumulation"), [(16, 1), (4, 4), (1, 16)])
def test_smaller_batches_with_accumulation_take_as_many_steps(
    tune: Tune, batch_size: int, gradient_accumulation: int
) -> None:
    sizes = {"batch_size": batch_size, "gradient_accumulation": gradient_accumulation}
    with pytest.raises(Told):
        tune("nominal", labelled(30), recorder=(said := StoppingRecorder(1)), epochs=None, **sizes)
    assert "40 epochs at most, 80 steps" in said.said


def test_a_length_that_the_model_does_not_take_is_cut_with_a_warning(tune: Tune) -> None:
    with pytest.raises(Told):
        tune("nominal", labelled(30), recorder=(said := StoppingRecorder(1)), max_length=1000)
    [warning] = said.warnings
    assert "max_length is 1000" in warning
    assert "takes 128 tokens at most" in warning


def test_a_precision_that_the_device_does_not_have_is_warned_of(tune: Tune) -> None:
    with pytest.raises(Told):
        tune("nominal", labelled(30), recorder=(said := StoppingRecorder(1)), precision="fp16")
    assert said.warnings == ["cpu does not compute in fp16: it is done in fp32."]


def test_weights_of_labels_are_of_no_use_to_numbers_and_that_is_said(tune: Tune) -> None:
    rows = [{**row, "targets": {"s": float(n)}} for n, row in enumerate(labelled(30))]
    with pytest.raises(Told):
        tune("continuous", rows, recorder=(said := StoppingRecorder(1)), class_weights="balanced")
    assert said.warnings == ["class_weights has no effect: numbers have no labels to weigh."]


def test_weights_that_the_last_step_spoils_are_no_model(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(self: Any) -> None:
        next(iter(self.model.parameters())).data.fill_(float("nan"))

    monkeypatch.setattr(transformers.Trainer, "train", train)
    with pytest.raises(TrainerError, match="Weights of the model became nan") as failure:
        tune("nominal", labelled(30))
    assert failure.value.code == "fit_failed"
    assert "Lower learning_rate" in failure.value.next_step
