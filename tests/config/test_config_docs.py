"""docs/configuration.md and the code say the same: every key, every default, every code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from potato_ray.config.backends import BACKEND_TYPES
from potato_ray.config.blocks import Block
from potato_ray.config.findings import Code
from potato_ray.config.places import BLOCKS, keys_of
from potato_ray.config.planned_checks import PLANNED_KEYS

ROOT = Path(__file__).parents[2]
DOCS = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
HEADINGS = {".".join(map(str, path)) or "Top level": block for path, block in BLOCKS.items()}


def table(heading: str) -> list[dict[str, str]]:
    """The rows of the first table below a heading, by column."""
    section = re.split(r"^#+ ", DOCS.split(f"# {heading}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:]]


def written(value: Any) -> str:
    """A default as the tables write it."""
    if value is None:
        return "none"
    if isinstance(value, Block):
        shares = value.model_dump(exclude_defaults=True)
        return f"`{{{', '.join(f'{name}: {share}' for name, share in shares.items())}}}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{value:g}`"
    text = {(): "[]"}.get(value, str(value)) if not isinstance(value, dict) else "{}"
    return f"`{text}`" if text else ""


def default_of(block: type[Block], key: str) -> str:
    field = next(field for name, field in block.model_fields.items() if key in (name, field.alias))
    return "required" if field.is_required() else written(field.get_default(call_default_factory=True))


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_key_of_a_block_is_documented_with_its_default(heading: str) -> None:
    block = HEADINGS[heading]
    documented = {row["key"].strip("`"): row["default"] for row in table(heading)}
    assert documented == {key: default_of(block, key) for key in keys_of(block)}


@pytest.mark.parametrize("name", BACKEND_TYPES)
def test_every_key_of_a_backend_type_is_documented_with_its_default(name: str) -> None:
    block = BACKEND_TYPES[name]
    rows = {row["key"].strip("`"): row for row in table("Backends") if row[name]}
    assert set(rows) == set(keys_of(block))
    for key, row in rows.items():
        required = default_of(block, key) == "required"
        assert row[name] == ("required" if required else "yes"), key
        assert required or row["default"] == default_of(block, key), key


def test_every_key_has_a_type_in_the_docs() -> None:
    for heading in [*HEADINGS, "Backends"]:
        assert all(row["type"] for row in table(heading)), heading


@pytest.mark.parametrize("path", PLANNED_KEYS, ids=lambda path: path[-1])
def test_a_key_without_effect_is_marked_in_the_docs(path: tuple[str, ...]) -> None:
    row = next(row for row in table(".".join(path[:-1])) if row["key"] == f"`{path[-1]}`")
    assert "not in this version" in row["meaning"]


def test_every_code_is_documented() -> None:
    assert [row["code"].strip("`") for row in table("Codes")] == list(get_args(Code))
