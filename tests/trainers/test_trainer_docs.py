import json
import re
from pathlib import Path

import pytest
from param_table import HEAD, rows_of

from potato_ray.trainers import estimators, registry
from potato_ray.trainers.base import Trainer
from potato_ray.trainers.calibration import MIN_PER_LABEL, MIN_ROWS, MIN_ROWS_ISOTONIC

PAGE = (Path(__file__).parents[2] / "docs" / "trainers.md").read_text("utf-8")


@pytest.mark.parametrize("trainer", registry.all_trainers(), ids=lambda trainer: trainer.name)
def test_the_page_lists_every_parameter_of_a_trainer(trainer: type[Trainer]) -> None:
    section = PAGE.split(f"## {trainer.name}\n")[1].split("\n## ")[0]
    rows = rows_of(trainer)
    assert "\n".join([*HEAD, *rows]) in section, "python tests/trainers/param_table.py prints the table"
    assert section.count("\n| `") == len(rows)


def test_the_page_names_the_packages_and_short_names_that_are_accepted() -> None:
    for name in [*estimators.PACKAGES, *estimators.SHORT_NAMES, *estimators.SHORT_VECTORIZERS]:
        assert f"`{name}`" in PAGE, name


def test_the_page_tells_the_defaults_and_limits_that_the_code_has() -> None:
    classifier, regressor = (
        estimators.default_estimator(role, {}, many=False)[1] for role in ("classifier", "regressor")
    )
    assert f"`C` {classifier['C']:g}" in PAGE
    assert f"`alpha` {regressor['alpha']:g}" in PAGE
    for words in (f"{MIN_ROWS} train", f"{MIN_PER_LABEL} of each label", f"{MIN_ROWS_ISOTONIC:,} left-out"):
        assert words in PAGE


@pytest.mark.parametrize("trainer", registry.all_trainers(), ids=lambda trainer: trainer.name)
def test_an_example_of_a_mapping_can_be_written_into_a_form_as_it_stands(trainer: type[Trainer]) -> None:
    helps = [param.help for param in trainer.params if "mapping" in param.type]
    examples = [found for text in helps for found in re.findall(r"\{.*?\}", text)]
    assert all(isinstance(json.loads(example), dict) for example in examples)


@pytest.mark.parametrize("trainer", registry.all_trainers(), ids=lambda trainer: trainer.name)
def test_a_mapping_that_has_fields_of_its_own_is_not_explained_as_json(trainer: type[Trainer]) -> None:
    assert [param.name for param in trainer.params if param.members and "{" in param.help] == []
