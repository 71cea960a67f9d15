"""Parameters that fit one by one and not together are refused before a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from potato_ray.config import ProjectConfig, load
from potato_ray.errors import StartRefused
from potato_ray.starting import StartRequest, plan_start
from potato_ray.trainers.params import problem_together
from potato_ray.trainers.sklearn_text import SklearnText

CONFIGS = Path(__file__).parents[2] / "configs"
PAIRS = Path(__file__).parents[1] / "projects" / "pairs" / "config.yaml"
EMBEDDINGS = "sentence-transformers"


@pytest.fixture
def config() -> ProjectConfig:
    return load(CONFIGS / "local" / "config.yaml")


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        ({"model": "x"}, r"does not take model; it takes model_name.*Did you mean model_name\?"),
        ({"batch_size": 0}, "vectorizer_kwargs: batch_size must be 1 or more, not 0"),
    ],
)
def test_arguments_of_embeddings_are_checked_before_a_run(
    config: ProjectConfig, kwargs: dict[str, Any], words: str
) -> None:
    params = {"vectorizer": EMBEDDINGS, "vectorizer_kwargs": kwargs}
    with pytest.raises(StartRefused, match=words) as refused:
        plan_start(config, StartRequest("sklearn-text", ("sentiment",), params))
    assert refused.value.code == "bad_params"


def test_a_model_without_the_vectorizer_that_it_is_for_is_refused(config: ProjectConfig) -> None:
    params = {"vectorizer_kwargs": {"model_name": "x"}}
    with pytest.raises(StartRefused, match="model_name is for vectorizer sentence-transformers") as refused:
        plan_start(config, StartRequest("sklearn-text", ("sentiment",), params))
    assert refused.value.code == "bad_params"


def test_a_trainer_of_the_same_kind_says_which_types_it_learns() -> None:
    config = load(PAIRS)
    with pytest.raises(StartRefused, match="setfit cannot learn scheme 'helpful'") as refused:
        plan_start(config, StartRequest("setfit", ("helpful",), backend="local"))
    assert refused.value.evidence.startswith("It learns schemes of type radio, select")


def test_arguments_are_checked_together_with_the_configured_ones(config: ProjectConfig) -> None:
    configured = {"sklearn-text": {"vectorizer": EMBEDDINGS}}
    training = config.model_training.model_copy(update={"trainer_params": configured})
    config = config.model_copy(update={"model_training": training})
    with pytest.raises(StartRefused, match="does not take model"):
        plan_start(
            config, StartRequest("sklearn-text", ("sentiment",), {"vectorizer_kwargs": {"model": "x"}})
        )


def test_a_check_of_somebody_else_s_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(params: Any) -> str:
        raise KeyError("depth")

    monkeypatch.setattr(SklearnText, "problem_with", failing)
    told = problem_together(SklearnText, {})
    assert told.startswith(
        "sklearn-text: the trainer's own check of its parameters failed with KeyError: 'depth'"
    )
    assert told.endswith("; tell whoever wrote the trainer")
