"""The reliability diagram: whether a model that says 80% is right in 80% of its answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from potato_ray.scoring import picture_sheet as sheet
from potato_ray.scoring.picture_axes import Axis, drawn_axes, unit_axis
from potato_ray.scoring.picture_sheet import num, safe, text

LEFT = 58
RIGHT = 20
PLOT_HEIGHT = 250
BARS_HEIGHT = 48
RADII = (4.5, 11.0)

STYLE = """\
.potato-picture .ideal { stroke: var(--muted); stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
.potato-picture .gap { stroke: var(--series0); stroke-width: 2; fill: none; }
.potato-picture .point { fill: var(--series0); stroke: var(--paper); stroke-width: 1.5; }
.potato-picture .bar { fill: var(--series0); }
"""


def reliability(bins: Sequence[Mapping[str, Any]], ece: float, title: str) -> str:
    """The diagram as SVG: accuracy over confidence, a point for each bin, its size by the items in it.

    `bins` are {"low", "high", "n", "mean_confidence", "accuracy"}, empty ones absent; `ece` is the expected
    calibration error, 0 to 1. Below, bars of the number of items.
    """
    filled = [each for each in bins if each["n"] > 0]
    if not filled:
        return sheet.empty_sheet(title, "There are no predictions with a confidence.")
    head, top = sheet.heading(title)
    x = unit_axis(LEFT, sheet.WIDTH - RIGHT)
    y = unit_axis(top + 8 + PLOT_HEIGHT, top + 8)
    bars_top = y.start + 44
    note, height = sheet.caption(bars_top + 14 + BARS_HEIGHT + 22, _note(filled, ece))
    ideal = f'<path class="ideal" d="M{num(x.at(0))} {num(y.at(0))}L{num(x.at(1))} {num(y.at(1))}"/>'
    parts = [head, drawn_axes(x, y, "confidence", "accuracy"), ideal]
    parts += [_gap(each, x, y) for each in filled]
    parts += [_point(each, x, y, _most(filled)) for each in filled]
    parts += [_histogram(filled, x, bars_top + 14), note]
    return sheet.sheet(title, _in_words(filled, ece), height, "\n".join(parts), style=STYLE)


def _most(bins: Sequence[Mapping[str, Any]]) -> int:
    return max(int(each["n"]) for each in bins)


def _gap(each: Mapping[str, Any], x: Axis, y: Axis) -> str:
    """The line from the diagonal to the point: what the bin adds to the calibration error."""
    said = _share(each["mean_confidence"])
    start, end = y.at(said), y.at(_share(each["accuracy"]))
    return f'<path class="gap" d="M{num(x.at(said))} {num(start)}V{num(end)}"/>'


def _point(each: Mapping[str, Any], x: Axis, y: Axis, most: int) -> str:
    """A dot whose area grows with the items in the bin."""
    radius = max(RADII[0], RADII[1] * math.sqrt(each["n"] / most))
    cx, cy = x.at(_share(each["mean_confidence"])), y.at(_share(each["accuracy"]))
    return (
        f"<g><title>{safe(_bin_in_words(each))}</title>"
        f'<circle class="point" cx="{num(cx)}" cy="{num(cy)}" r="{num(radius)}"/></g>'
    )


def _histogram(bins: Sequence[Mapping[str, Any]], x: Axis, top: float) -> str:
    """A bar for each bin, its number of items above it."""
    floor = top + BARS_HEIGHT
    drawn = [_bar(each, x, floor, _most(bins)) for each in bins]
    drawn.append(f'<path class="axis" d="M{num(x.start)} {num(floor)}H{num(x.end)}"/>')
    drawn.append(text(sheet.MARGIN + 9, top + BARS_HEIGHT / 2, "items", "small muted", "middle", upward=True))
    return "\n".join(drawn)


def _bar(each: Mapping[str, Any], x: Axis, floor: float, most: int) -> str:
    left, right = x.at(_share(each["low"])) + 1, x.at(_share(each["high"])) - 1
    height = max(1.0, BARS_HEIGHT * each["n"] / most)
    number = str(int(each["n"]))
    px = min(float(sheet.SMALL_PX), (right - left) / (0.58 * len(number)))
    count = text((left + right) / 2, floor - height - 3, number, "muted", "middle", px=px)
    return (
        f"<g><title>{safe(_bin_in_words(each))}</title>"
        f'<rect class="bar" x="{num(left)}" y="{num(floor - height)}" '
        f'width="{num(max(1.0, right - left))}" height="{num(height)}"/>{count}</g>'
    )


def _share(value: float) -> float:
    return min(1.0, max(0.0, float(value)))


def _note(bins: Sequence[Mapping[str, Any]], ece: float) -> str:
    return (
        f"Expected calibration error {ece:.3f} over {_n_items(bins)} predictions. "
        "On the dashed line, confidence is what it says; below it, the model is too sure of itself."
    )


def _in_words(bins: Sequence[Mapping[str, Any]], ece: float) -> str:
    said = " ".join(_bin_in_words(each) for each in bins)
    return (
        f"Reliability diagram: expected calibration error {ece:.3f} over {_n_items(bins)} predictions. {said}"
    )


def _n_items(bins: Sequence[Mapping[str, Any]]) -> int:
    return sum(int(each["n"]) for each in bins)


def _bin_in_words(each: Mapping[str, Any]) -> str:
    return (
        f"Confidence {each['low']:.2g} to {each['high']:.2g}: {int(each['n'])} predictions, "
        f"mean confidence {each['mean_confidence']:.3f}, accuracy {each['accuracy']:.3f}."
    )
