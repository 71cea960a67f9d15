import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from potato_ray.trainers import registry
from potato_ray.trainers.base import Param
from potato_ray.trainers.param_values import nearest
from potato_ray.trainers.params import as_schema, check_params, complete, members_of
from potato_ray.trainers.sklearn_text import SklearnText

ADAPTER = Param(
    "lora",
    "bool_or_mapping",
    False,
    "",
    members=(
        Param("r", "int", 16, "", minimum=1),
        Param("dropout", "float", 0, "", minimum=0, maximum=1),
        Param("targets", "names", None, "", optional=True),
        Param("quantize", "choice", "none", "", choices=("none", "4bit")),
    ),
)


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
        Param("limits", "mapping", {}, "", members=(Param("steps", "int", 7, ""),)),
        ADAPTER,
        Param("kinds", "names", ["a"], "", choices=("a", "bee")),
        Param("model", "dotted_path", None, "", choices=("Ridge",), optional=True, packages=("sklearn",)),
    )


def message(name: str, value: Any) -> str:
    problems = check_params(Knobs, {name: value})
    assert [problem.name for problem in problems] == [name] or not problems
    return problems[0].message if problems else ""


def test_an_unknown_parameter_is_named_with_those_that_there_are() -> None:
    assert message("stepz", 1) == (
        "knobs does not take stepz; it takes steps, rate, fast, title, mode, extra, "
        "limits, lora, kinds, model. Did you mean steps?"
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
        ("lora", "yes", "lora must be true, false or a mapping, not 'yes'"),
        ("lora", None, "lora must be true, false or a mapping, not null"),
        ("kinds", ["a", "be"], "may hold a, bee, not 'be'. Did you mean bee?"),
        ("kinds", [], "must hold at least one name"),
        ("kinds", ["a", 1], "must be a name or a list of names, not ['a', 1]"),
        ("model", "os.system", "must come from sklearn; os.system does not"),
        (
            "model",
            "Ridgee",
            "Ridgee is not known by its short name; write its full dotted path. Did you mean Ridge?",
        ),
        (
            "model",
            "sklearn.svm._classes.LinearSVC",
            "or the dotted path of a class, package.module.Name, not",
        ),
        ("model", "__import__('os')", "or the dotted path of a class, package.module.Name, not"),
        (
            "model",
            "Ridge-",
            "must be Ridge or the dotted path of a class, package.module.Name, not",
        ),
        ("model", "Ridge-", "Did you mean Ridge?"),
        ("KINDS", ["a"], "Did you mean kinds?"),
    ],
)
def test_a_wrong_value_is_refused_with_what_to_write(name: str, value: Any, words: str) -> None:
    assert words in message(name, value)


@pytest.mark.parametrize(
    ("name", "known", "near"),
    [
        ("svn", ["SVM", "svm"], "svm"),
        ("C", ["c", "C"], "C"),
        ("c", ["C", "class_weight"], "C"),
        ("HF", ["setfit", "hf-text-classification"], "hf-text-classification"),
        ("", ["a"], ""),
    ],
)
def test_the_nearest_name_is_one_written_alike_and_else_one_in_other_letters(
    name: str, known: list[str], near: str
) -> None:
    assert nearest(name, known) == near


@pytest.mark.parametrize(
    "given_params",
    [
        {"steps": 9, "rate": 2, "fast": True, "title": "x", "mode": "quick"},
        {"extra": {"a": [1, None, {"b": "c"}]}},
        {"lora": True},
        {"lora": {}},
        {"lora": {"r": 1, "dropout": 1, "targets": ["query", "value"], "quantize": "4bit"}},
        {"lora": {"targets": "query"}, "limits": {"steps": -1}},
        {"kinds": "bee"},
        {"model": None},
        {"model": "Ridge"},
        {"model": "sklearn.svm.SVR"},
    ],
)
def test_right_values_pass(given_params: dict[str, Any]) -> None:
    assert check_params(Knobs, given_params) == []


@pytest.mark.parametrize(
    ("value", "name", "words"),
    [
        (
            {"rr": 8},
            "lora.rr",
            "lora does not take rr; it takes r, dropout, targets, quantize. Did you mean r?",
        ),
        (
            {"rank": 8},
            "lora.rank",
            "lora does not take rank; it takes r, dropout, targets, quantize.",
        ),
        (
            {"tar": "query"},
            "lora.tar",
            "lora does not take tar; it takes r, dropout, targets, quantize. Did you mean targets?",
        ),
        ({"r": "8"}, "lora.r", "lora.r must be a whole number, not '8'."),
        ({"r": 0}, "lora.r", "lora.r must be 1 or more, not 0."),
        ({"r": None}, "lora.r", "lora.r must be a whole number, not null."),
        ({"dropout": 1.5}, "lora.dropout", "lora.dropout must be 1 or less, not 1.5."),
        ({"targets": [1]}, "lora.targets", "lora.targets must be a name or a list of names, not [1]."),
        (
            {"quantize": "4bits"},
            "lora.quantize",
            "lora.quantize must be one of none, 4bit, not '4bits'. Did you mean 4bit?",
        ),
    ],
)
def test_a_wrong_member_is_refused_by_its_full_name(value: Any, name: str, words: str) -> None:
    (problem,) = check_params(Knobs, {"lora": value})
    assert (problem.name, problem.message) == (name, f"knobs: {words}")


def test_every_wrong_member_is_told() -> None:
    problems = check_params(Knobs, {"lora": {"r": 0, "q": 1, "dropout": -1}, "limits": {"steps": 0.5}})
    assert [problem.name for problem in problems] == ["lora.r", "lora.q", "lora.dropout", "limits.steps"]


def test_a_mapping_with_members_gets_the_defaults_of_those_that_it_leaves_out() -> None:
    defaults = {"r": 16, "dropout": 0.0, "targets": None, "quantize": "none"}
    assert complete(Knobs)["lora"] is False
    assert complete(Knobs, {"lora": True})["lora"] == defaults
    assert complete(Knobs, {"lora": {"r": 8, "targets": "q"}})["lora"] == {
        **defaults,
        "r": 8,
        "targets": ["q"],
    }
    assert complete(Knobs)["limits"] == {"steps": 7}


def test_a_later_mapping_replaces_an_earlier_one_as_a_whole() -> None:
    values = complete(Knobs, {"lora": {"r": 8}, "kinds": "bee"}, {"lora": {"dropout": 1}})
    assert (values["lora"]["r"], values["lora"]["dropout"]) == (16, 1.0)
    assert values["kinds"] == ["bee"]
    assert complete(Knobs, {"lora": {"r": 8}}, {"lora": False})["lora"] is False


def test_a_trainer_reads_the_members_of_what_is_true_false_or_a_mapping() -> None:
    assert members_of(ADAPTER, False) is None
    assert members_of(ADAPTER, None) is None
    assert members_of(ADAPTER, True) == members_of(ADAPTER, {})
    assert (members_of(ADAPTER, {"r": 3}) or {})["r"] == 3
    assert members_of(Param("extra", "mapping", {}, ""), {"a": 1}) is None


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
