from __future__ import annotations

import re
from pathlib import Path

from potato_ray.bundle.builder import build
from potato_ray.project.schemes import KIND_OF_TYPE

PAGE = (Path(__file__).parents[2] / "docs" / "bundle.md").read_text("utf-8")
NAMED = set(re.findall(r"`(\w+)`", PAGE))


def test_the_page_explains_every_key_of_the_manifest_and_its_stats(potato, tmp_path):
    manifest = build(potato("shapes", "busy"), tmp_path / "bundle").manifest
    keys = {*manifest, *manifest["stats"], *manifest["stats"]["forced_train"], *manifest["schemas"][0]}
    assert keys - NAMED == set()


def test_the_page_explains_no_count_that_is_not_there(potato, tmp_path):
    stats = build(potato("shapes", "busy"), tmp_path / "bundle").manifest["stats"]
    assert {name for name in NAMED if name.startswith("n_")} - {"n_items"} <= stats.keys()


def test_the_page_names_every_annotation_type():
    table = PAGE[PAGE.index("| kind |") : PAGE.index("Lines end")]
    assert [name for name in KIND_OF_TYPE if not re.search(rf"\b{name}\b", table)] == []
