"""Whether confidences can be believed: reliability bins and the expected calibration error.

Guo et al. 2017: ten bins of equal width; ECE is the mean gap between confidence and accuracy, weighted
by the items in each bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

N_BINS = 10


def reliability(confidences: Sequence[float], correct: Sequence[bool]) -> tuple[list[dict[str, Any]], float]:
    """(bins, ece); a bin is {"low", "high", "n", "mean_confidence", "accuracy"}, empty ones are absent.

    `confidences` are in 0..1, one for each predicted item; `correct` says whether it was right.
    """
    said = np.clip(np.asarray(confidences, dtype=float), 0.0, 1.0)
    right = np.asarray(correct, dtype=float)
    place = np.minimum((said * N_BINS).astype(int), N_BINS - 1)
    bins = []
    for number in np.unique(place):
        inside = place == number
        bins.append(
            {
                "low": float(number) / N_BINS,
                "high": float(number + 1) / N_BINS,
                "n": int(inside.sum()),
                "mean_confidence": float(said[inside].mean()),
                "accuracy": float(right[inside].mean()),
            }
        )
    gap = sum(each["n"] * abs(each["mean_confidence"] - each["accuracy"]) for each in bins)
    return bins, float(gap / len(said))
