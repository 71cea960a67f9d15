"""Answers in words, short enough for a page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from potato_ray.trainers import kinds

ANSWER_CHARS = 200
MOST_PARTS = 8
"""Of an answer that has parts: spans, kinds of shapes."""


def shorten(said: str, most: int) -> str:
    """The text on one line, with … where it was cut, and without what UTF-8 cannot hold."""
    line = " ".join(said[: 4 * most].split()).encode("utf-8", "replace").decode("utf-8")
    return line if len(line) <= most and len(said) <= 4 * most else line[: most - 1].rstrip() + "…"


def in_words(kind: str, answer: Any, shown: str) -> str:
    """An answer as people read it; `shown` is the item's text, which spans quote. Never raises."""
    words = _WORDS.get(kind, _plain)
    try:
        return shorten(words(answer, shown), ANSWER_CHARS)
    except (TypeError, ValueError, KeyError, AttributeError):
        return shorten(_plain(answer, shown), ANSWER_CHARS)


def _plain(answer: Any, shown: str) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)


def _labels(answer: Any, shown: str) -> str:
    return ", ".join(map(str, answer)) or "none of the labels"


def _number(answer: Any, shown: str) -> str:
    return f"{float(answer):.6g}"


def _order(answer: Any, shown: str) -> str:
    return " > ".join(map(str, answer)) or "no order"


def _spans(answer: Any, shown: str) -> str:
    parts = (f"“{shorten(shown[span['start'] : span['end']], 60)}” {span['label']}" for span in answer)
    return _listed(parts, len(answer)) or "no span"


def _shapes(answer: Any, shown: str) -> str:
    counts = Counter(f"{shape['label']} ({shape['type']})" for shape in answer)
    return _listed((f"{count} × {name}" for name, count in counts.items()), len(counts)) or "no shape"


def _listed(parts: Iterator[str], count: int) -> str:
    first = "; ".join(islice(parts, MOST_PARTS))
    return first if count <= MOST_PARTS else f"{first}; and {count - MOST_PARTS} more"


_WORDS: Mapping[str, Callable[[Any, str], str]] = {
    kinds.MULTILABEL: _labels,
    kinds.CONTINUOUS: _number,
    kinds.RANKING: _order,
    kinds.SPAN: _spans,
    kinds.GEOMETRY: _shapes,
}
