"""No two items may have one id, in one file or in two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from potato_ray.config import Validation, id_checks

Validate = Callable[[str], Validation]


def write(folder: Path, name: str, *ids: Any) -> None:
    items = [{"id": each, "text": "fine"} for each in ids]
    (folder / "data" / name).write_text(json.dumps(items), encoding="utf-8")


def found(check: Validate, project: str) -> list[tuple[str, str, str]]:
    return [(each.code, each.key, each.message) for each in check(project).errors]


def test_an_id_that_stands_twice_in_a_file_is_an_error_with_both_places(
    check: Validate, project: str, folder: Path
) -> None:
    write(folder, "items.json", "a", "b", "a")
    message = (
        'the id "a" stands twice, in record 1 of data/items.json and in record 3 of data/items.json; '
        "ids must differ"
    )
    assert found(check, project) == [("duplicate_id", "data_files[0]", message)]


def test_an_id_that_stands_in_two_files_is_an_error_of_the_second(
    check: Validate, project: str, folder: Path
) -> None:
    write(folder, "more.json", "i1", "i3", "i2")
    text = project.replace("[data/items.json]", "[data/items.json, data/more.json]")
    code, key, message = found(check, text)[0]
    assert (code, key) == ("duplicate_id", "data_files[1]")
    assert message == (
        'the id "i1" stands twice, in record 1 of data/items.json and in record 1 of data/more.json, and 1 '
        "more stand twice; ids must differ"
    )


def test_a_file_that_is_listed_twice_repeats_all_its_ids(check: Validate, project: str) -> None:
    text = project.replace("[data/items.json]", "[data/items.json, data/items.json]")
    assert [(code, key) for code, key, _ in found(check, text)] == [("duplicate_id", "data_files[1]")]


def test_a_number_and_its_text_are_one_id(check: Validate, project: str, folder: Path) -> None:
    write(folder, "items.json", 7, "7")
    assert [code for code, _, _ in found(check, project)] == ["duplicate_id"]


def test_items_without_an_id_are_not_taken_for_one(check: Validate, project: str, folder: Path) -> None:
    write(folder, "items.json", "a", None, None)
    assert found(check, project) == []


def test_a_file_that_breaks_off_later_is_unreadable(check: Validate, project: str, folder: Path) -> None:
    (folder / "data" / "items.json").write_text('[{"id": "a", "text": "x"}, {"id": ', encoding="utf-8")
    assert [code for code, _, _ in found(check, project)] == ["data_file_unreadable"]


def test_larger_data_are_left_to_the_bundle(
    check: Validate, project: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(folder, "items.json", "a", "a")
    monkeypatch.setattr(id_checks, "MAX_BYTES", 10)
    assert found(check, project) == []
