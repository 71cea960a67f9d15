"""An item's text as a model reads it: one string, whatever the data file holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """The text with every lone surrogate, which no file can hold, replaced by U+FFFD; same length."""
    return text if text.isascii() else _LONE_SURROGATE.sub("\ufffd", text)


def readable(value: Any) -> str:
    """A field's value as text. Turns of a dialogue become lines of "speaker: text"; nothing is ""."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _turn(value)
    if isinstance(value, (list, tuple)):
        return "\n".join(readable(part) for part in value)
    return str(value)


def joined(parts: Sequence[str], prefix: str) -> str:
    """The parts of a list one below the other, each marked: A. or 1. or •, or not at all."""
    return "\n".join(_mark(number, prefix) + part for number, part in enumerate(parts))


def _turn(value: Mapping[Any, Any]) -> str:
    if "text" in value:
        speaker = value.get("speaker")
        return f"{speaker}: {readable(value['text'])}" if speaker else readable(value["text"])
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _mark(number: int, prefix: str) -> str:
    if prefix == "alphabet":
        return f"{_letters(number)}. "
    if prefix == "number":
        return f"{number + 1}. "
    return "• " if prefix == "bullet" else ""


def _letters(number: int) -> str:
    """A, B, ..., Z, AA, AB, ..."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters
