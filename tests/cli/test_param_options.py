"""Parameters on the command line: how they are read, and what the shell offers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from potato_ray.cli import completion
from potato_ray.cli.bash_words import join_words
from potato_ray.cli.param_options import parse_params
from potato_ray.errors import StartRefused
from potato_ray.trainers import registry
from potato_ray.trainers.base import Param
from potato_ray.trainers.sklearn_text import SklearnText


class Adapting(SklearnText):
    """A trainer of the tests with a mapping of members."""

    name = "adapting"
    params = (
        Param("lr", "float", None, "", optional=True),
        Param("mode", "choice", "slow", "", choices=("slow", "quick")),
        Param(
            "lora",
            "bool_or_mapping",
            False,
            "",
            members=(Param("r", "int", 16, ""), Param("fast", "bool", False, "")),
        ),
        Param("steps", "mapping", {}, ""),
    )


@pytest.fixture(autouse=True)
def adapting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._registered, "adapting", Adapting)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["min_instances=5", "calibrate=false"], {"min_instances": 5, "calibrate": False}),
        (
            ["classifier_kwargs={C: 2.5}", "classifier=SVC"],
            {"classifier_kwargs": {"C": 2.5}, "classifier": "SVC"},
        ),
        (["lr=2e-5", "lr=1E-4"], {"lr": 1e-4}),
        (["lr=null", "name=a=b", "empty="], {"lr": None, "name": "a=b", "empty": None}),
        (["lora.r=8", "lora.targets=[q, v]"], {"lora": {"r": 8, "targets": ["q", "v"]}}),
        (["lora=true", "lora.r=8"], {"lora": {"r": 8}}),
        (["lora={alpha: 4}", "lora.r=8"], {"lora": {"alpha": 4, "r": 8}}),
        (["lora.r=8", "lora=false"], {"lora": False}),
        (["a.b.c=1"], {"a": {"b": {"c": 1}}}),
    ],
)
def test_parameters_are_read_as_those_of_a_configuration(given: list[str], read: dict[str, Any]) -> None:
    assert parse_params(given) == read


@pytest.mark.parametrize(
    "pairs",
    [["min_instances"], ["=5"], ["kwargs={C: 2"], [".r=5"], ["lora.=5"], ["lora=false", "lora.r=8"]],
)
def test_a_parameter_that_cannot_be_read_is_refused(pairs: list[str]) -> None:
    with pytest.raises(StartRefused) as refused:
        parse_params(pairs)
    assert refused.value.code == "bad_params"
    assert refused.value.next_step


@pytest.mark.parametrize(
    ("incomplete", "offered"),
    [
        ("", ["lr=", "mode=", "lora=", "steps=", "lora."]),
        ("l", ["lr=", "lora=", "lora."]),
        ("lora.", ["lora.r=", "lora.fast="]),
        ("mode=", ["mode=slow", "mode=quick"]),
        ("mode=q", ["mode=quick"]),
        ("lora=", ["lora=true", "lora=false"]),
        ("lora.fast=f", ["lora.fast=false"]),
        ("lr=", ["lr=null"]),
        ("lora.r=", ["lora.r=16"]),
        ("x=", []),
    ],
)
def test_the_shell_is_offered_the_parameters_of_the_trainer(incomplete: str, offered: list[str]) -> None:
    assert completion.params("adapting", incomplete) == offered


@pytest.mark.parametrize("trainer", [None, "absent"])
def test_without_a_trainer_nothing_is_offered(trainer: str | None) -> None:
    assert completion.params(trainer, "") == []


@pytest.mark.parametrize(
    ("incomplete", "offered"),
    [
        ("mo", ["mode=", "mode=slow", "mode=quick"]),
        ("lora.r", ["lora.r=", "lora.r=16"]),
        ("st", ["steps=", "steps=…"]),
    ],
)
def test_a_name_is_offered_with_a_value_so_that_no_blank_comes_behind_it(
    incomplete: str, offered: list[str]
) -> None:
    assert completion.params("adapting", incomplete) == offered


@pytest.mark.parametrize(
    ("words", "joined", "kept"),
    [
        ("run -p mode = q", "run -p mode=q", "mode="),
        ("run -p mode =", "run -p mode=", "mode="),
        ("run -p a = 1 --param mode = q", "run -p a=1 --param mode=q", "mode="),
        ("run -p a = 1 --back", "run -p a=1 --back", ""),
        ("run -p mo", "run -p mo", ""),
        ("run --backend = q", "run --backend = q", ""),
    ],
)
def test_what_bash_has_split_is_one_word_again(words: str, joined: str, kept: str) -> None:
    listed = words.split()
    environ = {"COMP_WORDS": "\n".join(listed), "COMP_CWORD": str(len(listed) - 1)}
    assert join_words(environ) == kept
    assert environ["COMP_WORDS"].split("\n") == joined.split()
    assert environ["COMP_CWORD"] == str(len(joined.split()) - 1)


def complete(*words: str) -> list[str]:
    """What bash gets for the last of the words, which training libraries must not be loaded for."""
    environment = {
        **os.environ,
        "_POTATO_RAY_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    code = (
        "import sys; from potato_ray.cli import main\n"
        "sys.argv = ['potato-ray']\n"
        "try: main()\n"
        "finally: assert not {'sklearn', 'torch', 'transformers', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_names_and_values_of_the_trainers_parameters() -> None:
    command = ["potato-ray", "training", "run", "config.yaml", "--trainer", "sklearn-text", "--param"]
    assert complete(*command, "cali") == ["calibrate=", "calibrate=true", "calibrate=false"]
    assert complete(*command, "calibrate", "=", "f") == ["false"]
