"""The extras of the package bring what its trainers need."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from potato_ray.trainers import registry
from potato_ray.trainers.base import Trainer

ROOT = Path(__file__).parents[2]
EXTRAS = {
    "hf-text-classification": "train-text",
    "rdkit-property": "chem",
    "setfit": "setfit",
    "sklearn-text": None,
}
"""Trainer → the extra for it; None: the base install will do."""
BROUGHT_BY = {"setfit": {"sentence-transformers", "transformers", "torch"}}
"""What comes with a package that an extra names."""


@pytest.fixture
def project() -> Any:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def trainer(name: str) -> type[Trainer]:
    found = registry.get_trainer(name)
    assert found is not None
    return found


def names(lines: list[str]) -> set[str]:
    return {Requirement(line).name for line in lines}


def test_every_trainer_of_ours_is_here() -> None:
    assert set(EXTRAS) == set(registry.BUILT_IN)


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_brings_all_that_a_trainer_needs(project: Any, name: str) -> None:
    extra = EXTRAS[name]
    brought = names(project["optional-dependencies"][extra]) if extra else set()
    brought |= {each for package in brought for each in BROUGHT_BY.get(package, ())}
    needed = {need.package for need in trainer(name).requires}
    assert needed - brought - names(project["dependencies"]) == set()


@pytest.mark.parametrize("name", [name for name, extra in EXTRAS.items() if extra])
def test_the_page_of_trainers_names_the_extra(name: str) -> None:
    page = (ROOT / "docs" / "trainers.md").read_text("utf-8")
    assert f"| `{name}` | `pip install 'potato-ray[{EXTRAS[name]}]'` |" in page
