from __future__ import annotations

import pytest

from potato_ray.bundle.builder import build
from potato_ray.bundle.copies import Copies


def counted(**texts: list[str]) -> Copies:
    copies = Copies()
    for split, some in texts.items():
        for text in some:
            copies.add(split, text)
    return copies


def test_texts_that_are_held_out_and_in_train_are_counted_by_split() -> None:
    copies = counted(
        val=["One.", "two"], test=["three", "one.", "ONE. "], train=["one.", "one."], unlabeled=["two"]
    )
    [warning] = copies.warnings(None)
    assert warning.startswith("1 of 2 val items and 2 of 3 test items have the text of a train item")
    assert "as group_key" in warning


def test_copies_across_groups_are_said_to_need_the_same_one() -> None:
    [warning] = counted(train=["one"], test=["one"]).warnings("author")
    assert warning.startswith("1 of 1 test items has the text")
    assert "give copies the same author" in warning


@pytest.mark.parametrize("n_copies", [0, 1])
def test_a_copy_in_a_hundred_is_not_worth_a_word(n_copies: int) -> None:
    others = [str(number) for number in range(100)]
    assert list(counted(train=["one"], val=[*others, *["one"] * n_copies]).warnings(None)) == []


def test_texts_that_are_empty_are_no_copies() -> None:
    assert list(counted(train=["", " "], val=["", "\n"]).warnings(None)) == []


def test_the_bundle_of_a_project_with_every_text_twice_warns_of_it(small, tmp_path) -> None:
    items = [{"id": f"i{number:03d}", "text": f"text {number // 2}"} for number in range(200)]
    answers = {"ann": {item["id"]: "good" if number % 3 else "bad" for number, item in enumerate(items)}}
    report = build(small(items, answers), tmp_path / "bundle")
    [warning] = [each for each in report.warnings if "the text of a train item" in each]
    assert warning in report.manifest["stats"]["warnings"]
