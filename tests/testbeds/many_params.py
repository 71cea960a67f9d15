"""Trainers for tests of forms: one with a parameter of every type, and one whose packages are nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from playing_trainer import Playing

from potato_ray.trainers.base import Param, Requirement

LORA = Param(
    "lora",
    "bool_or_mapping",
    False,
    "Train thin matrices beside the layers instead of the model.",
    optional=True,
    members=(
        Param("r", "int", 16, "The rank of the matrices.", minimum=1, maximum=1024),
        Param("alpha", "int", 32, "How much they count.", minimum=1),
        Param("dropout", "float", 0.05, "Dropout before them.", minimum=0, maximum=1),
        Param("targets", "names", None, "The layers. Left out: all linear ones.", optional=True),
        Param("quantize", "choice", "none", "How the model is kept.", choices=("none", "8bit", "4bit")),
        Param("merge", "bool", True, "Add them to the model at the end."),
    ),
)


class ManyParams(Playing):
    """A parameter of every type."""

    name = "many-params"
    description = "A pretrained model, fine-tuned."
    params = (
        Param("model_name", "str", "answerdotai/ModernBERT-base", "An id on the hub, or a folder."),
        Param("epochs", "int", 4, "How often each item is seen.", minimum=1, maximum=1000),
        Param("learning_rate", "float", None, "Left out: by the model.", minimum=0, maximum=1, optional=True),
        LORA,
        Param("features", "names", ["morgan"], "What describes it.", choices=("morgan", "rdkit", "text")),
        Param("head", "choice", None, "What decides.", choices=("linear", "tree"), optional=True),
        Param("class_path", "dotted_path", "Ridge", "A class.", choices=("Ridge",), packages=("sklearn",)),
        Param("calibrate", "bool", True, "Correct the probabilities."),
        Param("stops", "mapping", {}, "When to stop.", members=(Param("after", "int", 3, "Epochs."),)),
        Param("extra", "mapping", {}, 'Further arguments, such as {"C": 2.0}.', advanced=True),
        Param(
            "wide",
            "bool_or_mapping",
            False,
            "Another one, folded away.",
            advanced=True,
            members=(Param("width", "int", 8, "In pixels.", minimum=1),),
        ),
    )

    @classmethod
    def problem_with(cls, params: Mapping[str, Any]) -> str:
        return "extra: epochs is none of its arguments." if "epochs" in params["extra"] else ""


class Absent(Playing):
    """A trainer that this Python lacks packages for."""

    name = "absent"
    requires = (Requirement("no_such_package", "no-such-package"),)
    install_hint = "pip install no-such-package"
