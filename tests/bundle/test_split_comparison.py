"""A study whose way of splitting has changed is warned."""

from __future__ import annotations

from typing import Any

import pytest

from potato_ray.bundle.comparison import split_changes

MANIFEST: dict[str, Any] = {
    "split_seed": 0,
    "group_key": None,
    "fractions": {"train": 0.7, "val": 0.3, "test": 0.0},
}


def test_the_same_way_of_splitting_needs_no_warning() -> None:
    assert split_changes(MANIFEST, dict(MANIFEST), "r1") == []


@pytest.mark.parametrize(
    ("name", "value"), [("split_seed", 1), ("group_key", "author"), ("fractions", {"train": 1.0})]
)
def test_a_changed_setting_is_named_with_the_run_before(name: str, value: Any) -> None:
    (warning,) = split_changes(MANIFEST, {**MANIFEST, name: value}, "r1")
    assert warning.startswith("model_training.")
    assert "r1" in warning
    assert repr(value) in warning


@pytest.mark.parametrize(
    "fractions",
    [{"train": 70, "val": 30}, {"train": 0.7, "val": 0.1 + 0.2, "test": 0}, {"train": 7, "val": 3}],
)
def test_the_same_shares_written_otherwise_need_no_warning(fractions: dict[str, float]) -> None:
    assert split_changes(MANIFEST, {**MANIFEST, "fractions": fractions}, "r1") == []


def test_a_manifest_of_another_program_without_these_settings_is_not_judged() -> None:
    assert split_changes({"split_seed": 0}, MANIFEST, "r1") == []


def test_another_grouping_of_the_items_is_named_in_both_directions() -> None:
    grouped = {**MANIFEST, "split_by": "scaffold"}
    [there] = split_changes(MANIFEST, grouped, "r1")
    [back] = split_changes(grouped, MANIFEST, "r1")
    assert "has changed from the study's own to that by scaffold since run r1" in there
    assert "has changed from that by scaffold to the study's own since run r1" in back


def test_the_same_grouping_by_another_field_is_another_one() -> None:
    before = {**MANIFEST, "split_by": "scaffold", "fields": ["smiles"]}
    [warning] = split_changes(before, {**before, "fields": ["smiles_clean"]}, "r1")
    assert "from that by scaffold of smiles to that by scaffold of smiles_clean" in warning
    assert split_changes(before, dict(before), "r1") == []
