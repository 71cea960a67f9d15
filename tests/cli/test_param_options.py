"""Parameters on the command line: how they are read, and what the shell offers."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from potato_ray.cli import completion
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
        ("", ["lr=", "mode=", "lora=", "lora."]),
        ("l", ["lr=", "lora=", "lora."]),
        ("lora.", ["lora.r=", "lora.fast="]),
        ("mode=", ["mode=slow", "mode=quick"]),
        ("mode=q", ["mode=quick"]),
        ("lora=", ["lora=true", "lora=false"]),
        ("lora.fast=f", ["lora.fast=false"]),
        ("lr=", ["lr=null"]),
        ("lora.r=", []),
        ("x=", []),
    ],
)
def test_the_shell_is_offered_the_parameters_of_the_trainer(incomplete: str, offered: list[str]) -> None:
    assert completion.params("adapting", incomplete) == offered


@pytest.mark.parametrize("trainer", [None, "absent"])
def test_without_a_trainer_nothing_is_offered(trainer: str | None) -> None:
    assert completion.params(trainer, "") == []


def test_the_command_itself_completes_a_parameter_and_imports_no_training_library() -> None:
    words = "potato-ray training run config.yaml --trainer sklearn-text --param cal"
    environment = {
        **os.environ,
        "_POTATO_RAY_COMPLETE": "complete_bash",
        "_TYPER_COMPLETE_ARGS": words,
        "COMP_WORDS": words,
        "COMP_CWORD": "7",
    }
    code = (
        "import sys; from potato_ray.cli.app import app\n"
        "try: app(prog_name='potato-ray')\n"
        "finally: assert not {'sklearn', 'torch', 'transformers', 'ray'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["calibrate="], done.stderr
