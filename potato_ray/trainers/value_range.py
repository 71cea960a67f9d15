"""The range of a numeric scheme, as its options tell it: one reading for training and for scores."""

from __future__ import annotations

import math
from typing import Any, Mapping


def value_range(options: Mapping[str, Any], low: float, high: float) -> tuple[float, float]:
    """(least, greatest): those of the options, and for what they don't say `low` and `high`, the data's."""
    given_least, given_greatest = bounds_of(options)
    least = low if given_least is None else given_least
    greatest = high if given_greatest is None else given_greatest
    # One bound beyond all of the data: the range between the two would be empty.
    return (least, greatest) if least <= greatest else (low, high)


def bounds_of(options: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """The least and the greatest value that an answer can have; None where the options don't say.

    Read are min_value and max_value, else min and max, else those of `scale`, as numbers or as texts of
    numbers. Bounds that are equal or the wrong way round say nothing.
    """
    scale = options.get("scale")
    nested: Mapping[str, Any] = scale if isinstance(scale, Mapping) else {}
    least = _first(options.get("min_value"), options.get("min"), nested.get("min"))
    greatest = _first(options.get("max_value"), options.get("max"), nested.get("max"))
    if least is not None and greatest is not None and least >= greatest:
        return None, None
    return least, greatest


def finite_number(value: Any) -> float | None:
    """A number as a finite float; None for true, false, what is too large, and anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _first(*values: Any) -> float | None:
    numbers = (finite_number(_parsed(value)) for value in values)
    return next((number for number in numbers if number is not None), None)


def _parsed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return None
