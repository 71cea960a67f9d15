"""Schemes whose pre-labels nobody would see: Potato's pages leave them empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from potato_ray.config import Validation, validate

ROOT = Path(__file__).parents[2]
Validate = Callable[[str], Validation]
WRITEBACK = "model_training:\n  writeback: {schemas: [trust]}\n"


@pytest.fixture
def check_scheme(check: Validate, project: str) -> Validate:
    """Validates a project that publishes predictions of the scheme `trust`."""
    return lambda rest: check(f"{project}  - {{name: trust, description: How, {rest}}}\n{WRITEBACK}")


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        ("annotation_type: likert, size: 5", "a likert scale without labels"),
        ("annotation_type: number", "of type number"),
        ("annotation_type: select, labels: [a, b]", "of type select"),
        ("annotation_type: ranking, labels: [a, b]", "of type ranking"),
        ("annotation_type: pairwise", "of type pairwise"),
    ],
)
def test_a_published_scheme_that_potato_leaves_empty_is_warned_of(
    check_scheme: Validate, rest: str, kind: str
) -> None:
    (found,) = check_scheme(rest).findings
    assert (found.level, found.code) == ("warning", "not_prefilled")
    assert found.key == "model_training.writeback.schemas[0]"
    assert f"trust is {kind}; Potato's pages leave it empty" in found.text


@pytest.mark.parametrize(
    "rest",
    ["annotation_type: likert, labels: [low, high]", "annotation_type: slider", "annotation_type: text"],
)
def test_a_published_scheme_that_potato_fills_in_is_not(check_scheme: Validate, rest: str) -> None:
    assert check_scheme(rest).findings == ()


def test_in_a_project_of_many_schemes_the_one_that_nobody_sees_is_named() -> None:
    (found,) = validate(ROOT / "tests" / "projects" / "multi-scheme" / "config.yaml").findings
    assert "writeback.schemas[2]: quality is a likert scale without labels" in found.text


def test_a_scheme_that_is_not_published_is_not_warned_of(check: Validate, project: str) -> None:
    scheme = "  - {name: trust, description: How, annotation_type: number}\n"
    assert check(f"{project}{scheme}model_training: {{writeback: {{schemas: [sentiment]}}}}\n").findings == ()
