"""Axes of a plot: from numbers to places, with ticks at numbers that people like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from potato_ray.scoring import picture_sheet as sheet
from potato_ray.scoring.picture_sheet import num, text

# From which number on an axis counts in what.
UNITS = ((1e6, 1e6, "M"), (1e5, 1e3, "k"))
TOO_LARGE = 1e9
MOST_DECIMALS = 6
NOTHING = 1e-90  # below it, a number is drawn as 0


@dataclass(frozen=True)
class Axis:
    """Maps `low`..`high` to the places `start`..`end` (in user units; an upward axis has end < start)."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (self.end - self.start) * (value - self.low) / (self.high - self.low)

    def tick_text(self, value: float) -> str:
        """The number at a tick, with the decimals that the step between ticks needs; 250k, 1.5M."""
        step, most = self.ticks[1] - self.ticks[0], max(map(abs, self.ticks))
        size, unit = next(((size, unit) for least, size, unit in UNITS if most >= least), (1.0, ""))
        decimals = max(0, -math.floor(math.log10(step / size) + 1e-9))
        if most >= TOO_LARGE or decimals > MOST_DECIMALS:
            return f"{value:.5g}"
        shown = f"{value / size + 0.0:.{decimals}f}"
        return shown + unit if value else shown


def unit_axis(start: float, end: float) -> Axis:
    """An axis for shares, 0 to 1."""
    return Axis(0.0, 1.0, start, end, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))


def nice_axis(values: Sequence[float], start: float, end: float, most: int, whole: bool = False) -> Axis:
    """An axis that holds all (finite) `values`, in about `most` steps; `whole` keeps ticks whole numbers."""
    low, high = min(values), max(values)
    size = max(abs(low), abs(high), NOTHING)
    if high - low <= 1e-9 * size:
        pad = max(1.0, 1e-6 * size) if whole or size == NOTHING else 0.1 * size
        low, high = low - pad, high + pad
    step = nice_step((high - low) / most)
    if whole:
        step = max(1.0, step)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    ticks = tuple(i * step for i in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def nice_step(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is no less than `least` (which is above 0)."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((m * power for m in (1, 2, 5) if m * power >= least * (1 - 1e-9)), 10 * power)


def drawn_axes(x: Axis, y: Axis, x_label: str, y_label: str) -> str:
    """Grid lines, ticks, their numbers and the names of both axes."""
    parts = [_y_tick(x, y, value) for value in y.ticks] + [_x_tick(x, y, value) for value in x.ticks]
    parts.append(f'<path class="axis" d="M{num(x.start)} {num(y.start)}H{num(x.end)}"/>')
    if x_label:
        middle = (x.start + x.end) / 2
        shown = sheet.cut(x_label, x.end - x.start, sheet.SMALL_PX)
        parts.append(text(middle, y.start + 32, shown, "small muted", "middle"))
    shown = sheet.cut(y_label, y.start - y.end, sheet.SMALL_PX)
    middle = (y.start + y.end) / 2
    parts.append(text(sheet.MARGIN + 9, middle, shown, "small muted", "middle", upward=True))
    return "\n".join(parts)


def _y_tick(x: Axis, y: Axis, value: float) -> str:
    place = y.at(value)
    line = f'<path class="grid" d="M{num(x.start)} {num(place)}H{num(x.end)}"/>'
    return line + text(x.start - 6, place + 4, y.tick_text(value), "small muted", "end")


def _x_tick(x: Axis, y: Axis, value: float) -> str:
    place = x.at(value)
    line = f'<path class="axis" d="M{num(place)} {num(y.start)}v4"/>'
    return line + text(place, y.start + 17, x.tick_text(value), "small muted", "middle")
