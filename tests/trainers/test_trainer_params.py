import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.trainers import registry
from potato_ray.trainers.base import Param
from potato_ray.trainers.params import as_schema, check_params, complete
from potato_ray.trainers.sklearn_text import SklearnText


class Knobs(SklearnText):
    """A trainer of the tests with a parameter of every type."""

    name = "knobs"
    params = (
        Param("steps", "int", 3, "", minimum=1, maximum=9),
        Param("rate", "float", 0.5, "", minimum=0),
        Param("fast", "bool", False, ""),
        Param("title", "str", "", ""),
        Param("mode", "choice", "slow", "", choices=("slow", "quick")),
        Param("extra", "mapping", {}, ""),
        Param("model", "dotted_path", None, "", choices=("Ridge",), optional=True, packages=("sklearn",)),
    )


def message(name: str, value: Any) -> str:
    problems = check_params(Knobs, {name: value})
    assert [problem.name for problem in problems] == [name] or not problems
    return problems[0].message if problems else ""


def test_an_unknown_parameter_is_named_with_those_that_there_are() -> None:
    assert message("stepz", 1) == (
        "knobs does not take stepz; it takes steps, rate, fast, title, mode, extra, model. "
        "Did you mean steps?"
    )


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("steps", True, "must be a whole number, not True"),
        ("steps", 2.0, "must be a whole number, not 2.0"),
        ("steps", 0, "must be 1 or more, not 0"),
        ("steps", 10, "must be 9 or less, not 10"),
        ("steps", None, "must be a whole number, not null"),
        ("rate", "0.5", "must be a number, not '0.5'"),
        ("rate", False, "must be a number, not False"),
        ("rate", float("nan"), "must be a number, not nan"),
        ("rate", -1, "must be 0 or more, not -1"),
        ("rate", 10**400, "must be a number, not 1000"),
        ("steps", 10**400, "must be 9 or less, not 1000"),
        ("steps", -(10**400), "must be 1 or more, not -1000"),
        ("fast", 1, "must be true or false, not 1"),
        ("title", 3, "must be text, not 3"),
        ("mode", "quik", "must be one of slow, quick, not 'quik'. Did you mean quick?"),
        ("extra", [1], "must be a mapping, not [1]"),
        ("extra", {"f": print}, "may hold only text, finite numbers"),
        ("extra", {1: 2}, "may hold only text, finite numbers"),
        ("model", "os.system", "must come from sklearn; os.system does not"),
        (
            "model",
            "Ridgee",
            "Ridgee is not known by its short name; write its full dotted path. Did you mean Ridge?",
        ),
        ("model", "sklearn.svm._classes.LinearSVC", "must be a dotted path"),
        ("model", "__import__('os')", "must be a dotted path"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_write(name: str, value: Any, words: str) -> None:
    assert words in message(name, value)


@pytest.mark.parametrize(
    "given_params",
    [
        {"steps": 9, "rate": 2, "fast": True, "title": "x", "mode": "quick"},
        {"extra": {"a": [1, None, {"b": "c"}]}},
        {"model": None},
        {"model": "Ridge"},
        {"model": "sklearn.svm.SVR"},
    ],
)
def test_right_values_pass(given_params: dict[str, Any]) -> None:
    assert check_params(Knobs, given_params) == []


def test_all_problems_are_told_at_once() -> None:
    assert len(check_params(Knobs, {"steps": 0, "rate": "x", "other": 1})) == 3


def test_later_layers_win_over_earlier_ones_and_over_the_defaults() -> None:
    values = complete(Knobs, {"steps": 4, "rate": 1, "extra": {"a": 1}}, {"steps": 5, "extra": {"b": 2}})
    assert values["steps"] == 5
    assert values["rate"] == 1.0
    assert isinstance(values["rate"], float)
    assert values["extra"] == {"b": 2}
    assert values["mode"] == "slow"


def test_the_defaults_cannot_be_changed_through_what_complete_returns() -> None:
    complete(Knobs)["extra"]["leak"] = 1
    assert complete(Knobs)["extra"] == {}


def test_the_schema_of_every_trainer_is_json_and_its_defaults_pass_its_own_check() -> None:
    for trainer in registry.all_trainers():
        schema = json.loads(json.dumps(as_schema(trainer)))
        assert [param["name"] for param in schema] == [param.name for param in trainer.params]
        assert check_params(trainer, complete(trainer)) == []


@given(
    st.dictionaries(
        st.sampled_from([p.name for p in Knobs.params] + ["x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        ),
    )
)
def test_whatever_is_given_gets_an_answer(params: dict[str, Any]) -> None:
    if not check_params(Knobs, params):
        json.dumps(complete(Knobs, params), allow_nan=False)
