"""sklearn-text on the embeddings of a tiny sentence model: learnt from, kept, and found again offline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_hub import COMMIT
from parts import need_module
from trainer_samples import SCHEMES, Fitted, fit_in, opinions, rows_of

from potato_ray.backends.local_check import uses_gpu
from potato_ray.trainers import registry, sentence_embeddings
from potato_ray.trainers.base import SchemeSpec, TrainerError
from potato_ray.trainers.params import check_params, complete
from potato_ray.trainers.registry import load_trainer
from potato_ray.trainers.sentence_model import SentenceModel, check_parts
from potato_ray.trainers.sklearn_text import SklearnText

need_module("torch", "transformers", "sentence_transformers")

TEXTS, LABELS = opinions(80)
EMBEDDED = {"vectorizer": "sentence-transformers"}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_models import tiny_sentence_model

    return tiny_sentence_model(tmp_path_factory.mktemp("models") / "sentences")


@pytest.fixture(scope="module", autouse=True)
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One cache of embeddings for all, and a Hub that must not be asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POTATO_MODEL_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        yield


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("POTATO_MODEL_CACHE", str(tmp_path / "models"))
    return tmp_path / "models"


def fit(
    folder: Path,
    model: Path | str,
    scheme: str | SchemeSpec = "nominal",
    rows: Sequence[Mapping[str, Any]] | None = None,
    **kwargs: Any,
) -> Fitted:
    params = {**EMBEDDED, "vectorizer_kwargs": {"model_name": str(model), **kwargs}}
    return fit_in(folder, SklearnText, scheme, {"train": rows or rows_of(TEXTS, LABELS)}, params)


def forbid_models(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_args: Any) -> None:
        raise AssertionError("a model was loaded")

    monkeypatch.setattr(sentence_embeddings, "SentenceModel", load)


TARGETS: dict[str, list[Any]] = {
    "nominal": LABELS,
    "ordinal": ["5" if label == "good" else "2" for label in LABELS],
    "multilabel": [["price"] if label == "good" else [] for label in LABELS],
    "continuous": [80.0 if label == "good" else 20.0 for label in LABELS],
}


@pytest.mark.parametrize("kind", TARGETS)
def test_a_loaded_model_says_what_the_fitted_one_said(kind: str, tiny: Path, tmp_path: Path) -> None:
    fitted = fit(tmp_path, tiny, kind, rows_of(TEXTS, TARGETS[kind]))
    new = rows_of([*opinions(20, seed=1)[0], "", "\ud800", "word " * 5000])
    said = list(fitted.trainer.predict(new))
    assert list(load_trainer(fitted.artifacts).predict(new)) == said
    assert len(said) == len(new)


def test_the_labels_of_other_texts_are_found(tiny: Path, tmp_path: Path) -> None:
    fitted = fit(tmp_path, tiny, rows=rows_of(*opinions(300)), words=False)
    texts, labels = opinions(100, seed=1)
    right = sum(p.payload["label"] == label for p, label in zip(fitted.of(texts), labels, strict=True))
    assert right >= 75
    assert fitted.metrics["n_features"] == 32.0


def test_words_stand_beside_the_embeddings_and_are_learnt_from(tiny: Path, tmp_path: Path) -> None:
    rows = rows_of(*opinions(300))
    alone = fit_in(tmp_path / "alone", SklearnText, "nominal", {"train": rows}, {})
    fitted = fit(tmp_path, tiny, rows=rows)
    assert fitted.metrics["n_features"] == alone.metrics["n_features"] + 32
    texts, labels = opinions(100, seed=1)
    right = sum(p.payload["label"] == label for p, label in zip(fitted.of(texts), labels, strict=True))
    assert right >= 90


def test_few_items_are_learnt_from_by_their_embeddings_alone(tiny: Path, tmp_path: Path) -> None:
    few, enough = (fit(tmp_path, tiny, rows=rows_of(*opinions(n))).metrics["n_features"] for n in (199, 200))
    assert few == 32.0 < enough


def test_texts_without_a_word_are_learnt_from_by_their_embeddings(tiny: Path, tmp_path: Path) -> None:
    rows = rows_of(
        ["• " * (n % 9 + 1) if n % 2 else "~ " * (n % 9 + 1) for n in range(40)], ["good", "bad"] * 20
    )
    fitted = fit(tmp_path, tiny, rows=rows, words=True)
    assert fitted.metrics["n_features"] == 32.0
    assert len(list(load_trainer(fitted.artifacts).predict(rows))) == 40


def test_a_classifier_of_dense_features_is_told_of_embeddings_alone(tiny: Path, tmp_path: Path) -> None:
    params = {**EMBEDDED, "classifier": "sklearn.ensemble.HistGradientBoostingClassifier"}
    splits = {"train": rows_of(TEXTS, LABELS)}
    beside, alone = ({"model_name": str(tiny), "words": words} for words in (True, False))
    with pytest.raises(TrainerError, match="sparse") as refused:
        fit_in(tmp_path, SklearnText, "nominal", splits, {**params, "vectorizer_kwargs": beside})
    assert '{"words": false}' in refused.value.next_step
    fitted = fit_in(tmp_path, SklearnText, "nominal", splits, {**params, "vectorizer_kwargs": alone})
    assert len(fitted.of(TEXTS[:2])) == 2


def test_of_two_texts_the_difference_of_their_embeddings_is_learnt(tiny: Path, tmp_path: Path) -> None:
    good = [text for text, label in zip(TEXTS, LABELS, strict=True) if label == "good"]
    bad = [text for text, label in zip(TEXTS, LABELS, strict=True) if label == "bad"]
    pairs = [(g, b) if n % 2 else (b, g) for n, (g, b) in enumerate(zip(good, bad, strict=False))]
    rows = [
        {"instance_id": f"i{n}", "text": "", "texts": list(pair), "targets": {"s": "AB"[pair[0] in good]}}
        for n, pair in enumerate(pairs)
    ]
    fitted = fit(tmp_path, tiny, SchemeSpec("s", "pairwise", "nominal", ("A", "B")), rows)
    swapped = [{"instance_id": "x", "text": "", "texts": [b, a]} for a, b in pairs]
    labels = [prediction.payload["label"] for prediction in fitted.trainer.predict(swapped)]
    right = [label == "AB"[pair[1] in good] for label, pair in zip(labels, pairs, strict=True)]
    assert np.mean(right) > 0.8


def test_a_second_training_loads_no_model(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fit(tmp_path, tiny)
    said = first.of(opinions(20, seed=2)[0])
    forbid_models(monkeypatch)
    second = fit(tmp_path, tiny)
    assert second.of(opinions(20, seed=2)[0]) == said
    assert "Embeddings of 0 of 80 texts computed; 80 were in" in second.recorder.said


def test_only_new_texts_are_computed_and_each_of_them_once(
    tiny: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    computed: list[str] = []
    encode = SentenceModel.encode

    def counted(model: SentenceModel, texts: Sequence[str], *args: Any) -> Any:
        computed.extend(texts)
        return encode(model, texts, *args)

    monkeypatch.setattr(SentenceModel, "encode", counted)
    fit(tmp_path, tiny, rows=rows_of(TEXTS[:60], LABELS[:60]))
    assert sorted(computed) == sorted(set(TEXTS[:60]))
    computed.clear()
    fit(tmp_path, tiny, rows=rows_of([*TEXTS, *TEXTS], [*LABELS, *LABELS]))
    assert sorted(computed) == sorted(set(TEXTS) - set(TEXTS[:60]))


def test_the_progress_is_told_with_the_time_that_is_left(tiny: Path, tmp_path: Path, own_cache: Path) -> None:
    fitted = fit(tmp_path, tiny, batch_size=5)
    told = fitted.recorder.progressed
    assert [(done, total) for done, total, _ in told] == [(40, 80), (80, 80)]
    assert all(eta is not None and eta >= 0 for _, _, eta in told)
    assert told[-1][2] == 0


def test_a_cache_that_cannot_be_written_is_warned_of(tiny: Path, tmp_path: Path, own_cache: Path) -> None:
    own_cache.write_text("a file in its place")
    fitted = fit(tmp_path, tiny)
    assert "Embeddings are not kept for the next run" in "".join(fitted.recorder.warnings)


def test_the_device_is_chosen_when_a_model_is_loaded(tiny: Path, tmp_path: Path, own_cache: Path) -> None:
    asked: list[str] = []
    embeddings = sentence_embeddings.SentenceEmbeddings.of({"model_name": str(tiny)})
    embeddings.choose_device = lambda: asked.append("") or "cpu"  # type: ignore[func-returns-value]
    embeddings.transform(["one"])
    embeddings.transform(["two"])
    assert asked == [""]


def test_a_folder_whose_model_has_changed_is_refused(tiny: Path, tmp_path: Path) -> None:
    mine = Path(shutil.copytree(tiny, tmp_path / "mine"))
    fitted = fit(tmp_path, mine)
    (mine / "README.md").write_text("its card may change")
    load_trainer(fitted.artifacts)
    (mine / "config.json").write_text((mine / "config.json").read_text() + " ")
    with pytest.raises(TrainerError, match="is not the one this run was trained with"):
        load_trainer(fitted.artifacts)
    shutil.rmtree(mine)
    with pytest.raises(TrainerError, match="names no folder"):
        load_trainer(fitted.artifacts)


def test_a_model_of_the_hub_is_recorded_and_found_by_its_commit(tiny: Path, tmp_path: Path) -> None:
    model = tmp_path / "models--some--model"
    shutil.copytree(tiny, model / "snapshots" / COMMIT)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text(COMMIT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_CACHE", str(tmp_path))
        fitted = fit(tmp_path, "some/model")
        shutil.copytree(tiny, model / "snapshots" / "another")
        (model / "refs" / "main").write_text("another")
        loaded: Any = load_trainer(fitted.artifacts)
    assert loaded._fitted().features.vectorizer.find().revision == COMMIT
    card = fitted.json("model_card.json")["embeddings"]
    assert (card["model_name"], card["revision"], card["digest"]) == ("some/model", COMMIT, "")


def test_a_model_holds_no_weights_and_nothing_that_is_built_by_a_class_of_ours(
    tiny: Path, tmp_path: Path
) -> None:
    import skops.io

    fitted = fit(tmp_path, tiny, words=False)
    model = fitted.artifacts / "model.skops"
    assert model.stat().st_size < (tiny / "model.safetensors").stat().st_size / 2
    assert skops.io.get_untrusted_types(file=model) == []


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"modelname": "x"}, "does not take modelname; it takes model_name, .* Did you mean model_name?"),
        ({"batch_size": 0}, "batch_size must be 1 or more, not 0"),
        ({"normalize": "yes"}, "normalize must be true or false, not 'yes'"),
        ({"model_name": "/no/where"}, "names no folder on this machine: /no/where"),
        ({"model_name": "no/where"}, "no/where is neither a folder nor in the cache"),
    ],
)
def test_wrong_arguments_are_refused_before_any_row_is_read(
    kwargs: dict[str, Any], words: str, tmp_path: Path
) -> None:
    rows: list[Any] = [{"unread": True}]
    with pytest.raises(TrainerError, match=words) as refusal:
        fit_in(tmp_path, SklearnText, "nominal", {"train": rows}, {**EMBEDDED, "vectorizer_kwargs": kwargs})
    assert refusal.value.code == "validation_failed"


def test_its_packages_are_asked_for_only_where_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_is_installed", lambda module: module not in ("sentence_transformers",))
    registry.require_packages(SklearnText, params=complete(SklearnText))
    with pytest.raises(TrainerError, match=r"lacks sentence-transformers\.") as refusal:
        registry.require_packages(SklearnText, "gpu1", complete(SklearnText, EMBEDDED))
    assert refusal.value.code == "missing_dependency"
    assert refusal.value.next_step.endswith("-m pip install scikit-learn skops sentence-transformers")


def test_a_gpu_is_of_use_only_where_it_is_named() -> None:
    assert check_params(SklearnText, EMBEDDED) == []
    assert uses_gpu(SklearnText, complete(SklearnText, EMBEDDED))
    assert not uses_gpu(SklearnText, complete(SklearnText))


def test_embeddings_that_are_no_numbers_end_the_run(
    tiny: Path, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SentenceModel, "encode", lambda _self, texts, *_: np.full((len(texts), 3), np.nan))
    with pytest.raises(TrainerError, match="gives embeddings that are no numbers"):
        fit(tmp_path, tiny)


DENSE = {"path": "2_Dense", "type": "sentence_transformers.models.Dense"}


@pytest.mark.parametrize(
    ("part", "config", "words"),
    [
        ({"path": "2_Mine", "type": "mine.Module"}, {}, "mine.Module is none of sentence-transformers"),
        (DENSE, {"activation_function": "os.system"}, "its activation os.system is none of torch"),
        (DENSE, {}, "its weights are pickled"),
        ({"path": "2_Mine"}, {}, "cannot be read"),
    ],
)
def test_a_model_that_brings_code_is_refused(
    part: dict[str, str], config: dict[str, str], words: str, tiny: Path, tmp_path: Path
) -> None:
    mine = Path(shutil.copytree(tiny, tmp_path / "mine"))
    parts = json.loads((mine / "modules.json").read_text())
    (mine / "modules.json").write_text(json.dumps([*parts, part]))
    (mine / part["path"]).mkdir()
    (mine / part["path"] / "config.json").write_text(json.dumps(config))
    (mine / part["path"] / "pytorch_model.bin").write_bytes(b"pickled")
    with pytest.raises(TrainerError, match=words) as refusal:
        check_parts(mine)
    assert refusal.value.code == "validation_failed"


def test_the_schemes_of_the_samples_are_all_tried() -> None:
    assert set(TARGETS) == set(SCHEMES)
