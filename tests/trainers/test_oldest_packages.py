"""The trainers on the oldest packages that pyproject.toml allows, which are the newest for Python 3.8."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from kept_folder import kept_folder, pip_install
from parts import need_module

need_module("torch", "transformers", "peft", "accelerate", "sentence_transformers", "setfit")

HERE = Path(__file__).parent
OLD = ("transformers", "peft", "accelerate", "sentence-transformers", "setfit")
WITH_THEM = ("tokenizers==0.20.*", "huggingface-hub<1", "datasets==3.1.*")
"""What these need in their turn, and need older than what there is else."""
TESTS = (
    "test_hf_text.py::test_opinions_are_learnt_and_the_best_epoch_on_val_is_kept",
    "test_hf_text.py::test_lora_beside_a_base_that_lacks_a_layer_says_the_same_when_loaded",
    "test_hf_text.py::test_a_training_that_is_stopped_leaves_its_best_checkpoint_as_partial",
    "test_setfit_text.py::test_it_learns_labels_and_predicts_the_same_after_loading",
    "test_setfit_text.py::test_nothing_is_asked_of_the_network_and_nothing_written_beside_the_artifacts",
    "test_sentence_embeddings.py::test_a_loaded_model_says_what_the_fitted_one_said[nominal]",
)


def oldest() -> list[str]:
    """Requirements of each at its lower bound: `>=4.46` is taken as `==4.46.*`, `>=1.1.2` as `==1.1.2`."""
    project = tomllib.loads((HERE.parents[1] / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [line for extra in project["optional-dependencies"].values() for line in extra]
    bounds = dict(found.groups() for line in lines if (found := re.match(r"([\w-]+)>=([\d.]+)", line)))
    return [f"{name}=={bounds[name]}{'.*' if bounds[name].count('.') == 1 else ''}" for name in OLD]


@pytest.mark.timeout(600)
def test_each_text_trainer_learns_with_them_and_says_the_same_after_loading() -> None:
    wanted = [*oldest(), *WITH_THEM]
    old = kept_folder(
        " ".join(["oldest", *wanted, *map(str, sys.version_info[:2])]),
        lambda folder: pip_install(sys.executable, "--no-deps", "--target", str(folder), *wanted),
    )
    of_ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    path = os.pathsep.join([str(old), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *(str(HERE / test) for test in TESTS),
        ],
        env={**of_ours, "PYTHONPATH": path},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert f"{len(TESTS)} passed" in done.stdout, done.stdout + done.stderr
