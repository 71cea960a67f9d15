"""Did you mean …? Near misses among the names that are valid at one place, and values in words."""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Sequence
from typing import Any

CUTOFF = 0.7
_SHOWN_CHARACTERS = 60


def closest(name: str, known: Collection[str], cutoff: float = CUTOFF) -> str:
    """The name in `known` that `name` is most likely a misspelling of, or ""."""
    folded = {option.lower().replace("-", "_"): option for option in known}
    found = difflib.get_close_matches(name.lower().replace("-", "_"), folded, n=1, cutoff=cutoff)
    return folded[found[0]] if found else ""


def listed(names: Sequence[str], last: str = "or") -> str:
    """`a, b or c`."""
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


def shown(value: Any) -> str:
    """A value as JSON writes it, cut to a readable length."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
