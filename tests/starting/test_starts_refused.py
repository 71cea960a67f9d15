"""Everything that can be refused is refused at once, with a code and the next step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from potato_ray.config import ProjectConfig, load
from potato_ray.errors import StartRefused
from potato_ray.starting import HTTP_STATUS, StartRequest, plan_start

CONFIGS = Path(__file__).parents[2] / "configs"


@pytest.fixture(scope="module")
def config() -> ProjectConfig:
    return load(CONFIGS / "ray" / "config.yaml")


REFUSALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown trainer": ({"trainer": "sklearn-txt"}, "unknown_trainer", "Did you mean sklearn-text?"),
    "a trainer's beginning": ({"trainer": "hf-text"}, "unknown_trainer", "mean hf-text-classification?"),
    "no trainer": ({"trainer": ""}, "unknown_trainer", "Name one"),
    "an unknown scheme": ({"schemas": ("sentimant",)}, "unknown_schema", "Did you mean sentiment?"),
    "no scheme": ({"schemas": ()}, "unknown_schema", "Name one"),
    "an unknown second scheme": ({"schemas": ("sentiment", "x")}, "unknown_schema", "Name one"),
    "an unknown parameter": ({"params": {"clasifier": "SVC"}}, "bad_params", "Correct"),
    "a parameter of the wrong type": ({"params": {"min_instances": "many"}}, "bad_params", "Correct"),
    "a callable that is no estimator": ({"params": {"classifier": "os.system"}}, "bad_params", "Correct"),
    "an unknown backend": ({"backend": "labb"}, "unknown_backend", "Did you mean"),
    "a backend that cannot run yet": ({"backend": "lab"}, "unknown_backend", "local"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_start_is_refused_for(case: str, config: ProjectConfig) -> None:
    changes, code, next_step = REFUSALS[case]
    wanted = {"trainer": "sklearn-text", "schemas": ("sentiment",), "backend": "local", **changes}
    with pytest.raises(StartRefused) as refused:
        plan_start(config, StartRequest(**wanted))
    assert refused.value.code == code
    assert next_step in refused.value.next_step
    assert HTTP_STATUS[code] in (400, 409, 429)


def test_an_unknown_parameter_is_answered_with_those_there_are(config: ProjectConfig) -> None:
    request = StartRequest("sklearn-text", ("sentiment",), {"clasifier": "SVC"}, backend="local")
    with pytest.raises(StartRefused, match=r"sklearn-text does not take clasifier.*classifier"):
        plan_start(config, request)


def test_a_runs_own_parameters_win_over_configured_ones_and_those_over_defaults() -> None:
    config = load(CONFIGS / "local" / "config.yaml")
    training = config.model_training.model_copy(
        update={"trainer_params": {"sklearn-text": {"min_instances": 5, "calibrate": False}}}
    )
    config = config.model_copy(update={"model_training": training})
    plan = plan_start(config, StartRequest("sklearn-text", ("sentiment",), {"min_instances": 3}))
    assert (plan.params["min_instances"], plan.params["calibrate"]) == (3, False)
    assert "vectorizer" in plan.params
