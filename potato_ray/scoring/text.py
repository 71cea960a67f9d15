"""Scores of free texts: text, textbox, text_edit.

token_f1 compares bags of words, without regard to case (the F1 of Rajpurkar et al. 2016, means over
items). exact_match is stricter: the same text, case included, but for blanks around it. A missing
prediction, and one that is no text, scores 0 in both.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from potato_ray.scoring.defined import defined

MAIN = "token_f1"
LOWER_IS_BETTER = False
METRICS = ("token_f1", "exact_match")

# Chinese and Japanese are written without blanks between words: each of their characters is a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """Both are means over items, 0..1."""
    if not len(truth):
        return {}
    same = [_stripped(human) == _stripped(said) for human, said in _readable(truth, answers)]
    return defined(
        token_f1=float(main_of(per_item(truth, answers, scheme).sum(0))),
        exact_match=sum(same) / len(truth),
    )


def words(text: str) -> list[str]:
    """The words of a text, casefolded; of a text without any (an emoji, "?!") its blank-separated parts."""
    folded = unicodedata.normalize("NFC", text.casefold())
    return _WORD.findall(folded) or folded.split()


def token_f1(human: str, said: str) -> float:
    """F1 of the two bags of words, 0..1; two empty texts agree."""
    wanted, given = Counter(words(human)), Counter(words(said))
    total = wanted.total() + given.total()
    return 2 * (wanted & given).total() / total if total else 1.0


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """token_f1 and 1 for each item; shape (n_items, 2)."""
    scores = [
        token_f1(str(human), said) if isinstance(said, str) else 0.0
        for human, said in zip(truth, answers, strict=True)
    ]
    return np.column_stack([np.array(scores, dtype=float), np.ones(len(scores))])


def main_of(sums: np.ndarray) -> np.ndarray:
    """token_f1 of sums of `per_item`, shape (..., 2) -> (...); 0 without items."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> str:
    """The most frequent text of the train split, of several the first in the alphabet."""
    counts = Counter(str(text) for text in train)
    return min(counts, key=lambda text: (-counts[text], text), default="")


def _readable(truth: Sequence[Any], answers: Sequence[Any | None]) -> list[tuple[str, str]]:
    pairs = zip(truth, answers, strict=True)
    return [(str(human), said) for human, said in pairs if isinstance(said, str)]


def _stripped(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()
