"""docs/registry.md against the code."""

from __future__ import annotations

import re
import sqlite3
from dataclasses import fields
from pathlib import Path

from potato_ray.writeback import WritebackReport

DOCS = (Path(__file__).parents[2] / "docs" / "registry.md").read_text("utf-8")


def test_every_table_is_described_with_its_key(registry, path):
    described = dict(re.findall(r"^\| `(potato_ray_\w+)` \|.*\| (`[^|]*) \|$", DOCS, re.MULTILINE))
    connection = sqlite3.connect(path)
    names = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'potato_ray_%'"
    )
    for (name,) in names.fetchall():
        info = connection.execute(f"PRAGMA table_info({name})").fetchall()
        key = [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]]
        assert re.findall(r"`(\w+)`", described.pop(name).split(";")[0]) == key
    connection.close()
    assert described == {}


def test_every_key_of_the_report_is_described():
    for field in fields(WritebackReport):
        assert f"`{field.name}`" in DOCS
