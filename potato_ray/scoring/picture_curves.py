"""Training and validation curves, told apart by dashes and markers as well as by colour."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from potato_ray.scoring import picture_sheet as sheet
from potato_ray.scoring.picture_axes import Axis, drawn_axes, nice_axis
from potato_ray.scoring.picture_sheet import num, text

Point = tuple[float, float]

RIGHT = 20
PLOT_HEIGHT = 220
MARKERS_PER_CURVE = 8
AS_GOOD_AS_INFINITE = 1e100
SAMPLE_WIDTH = 34

# Four dashes and five markers: twenty curves differ without any colour.
DASHES = ("", "7 4", "2 3", "9 3 2 3")
MARKERS = (
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",  # circle
    "M-3.5-3.5h7v7h-7z",  # square
    "M0-4.5L4.5 3.5h-9z",  # triangle
    "M0-5L5 0L0 5L-5 0z",  # diamond
    "M0 4.5L4.5-3.5h-9z",  # triangle on its tip
)

STYLE = "".join(
    f".potato-picture .line{i} {{ stroke: var(--series{i}); stroke-width: 2; fill: none; }}\n"
    f".potato-picture .mark{i} {{ fill: var(--series{i}); stroke: var(--paper); }}\n"
    for i in range(len(sheet.LIGHT.series))
)


@dataclass(frozen=True)
class Curve:
    """One series: its finite points by x, in pieces that are broken where a value wasn't finite."""

    name: str
    pieces: tuple[tuple[Point, ...], ...]
    n_not_finite: int

    @property
    def points(self) -> list[Point]:
        """All finite points."""
        return [point for piece in self.pieces for point in piece]


def curves(series: Mapping[str, Sequence[Point]], title: str, x_label: str, y_label: str) -> str:
    """The curves as SVG; `series` maps a name to its (x, y) points, drawn in the order of x.

    A y that isn't finite breaks its curve and is counted in the legend.
    """
    made = [_curve(name, points) for name, points in series.items() if points]
    everything = [point for curve in made for point in curve.points]
    if not everything:
        return sheet.empty_sheet(title, "There are no points to draw.")
    head, top = sheet.heading(title)
    x, y = _axes(everything, top + 8)
    legend, height = _legend(made, y.start + (58 if x_label else 42))
    lines = [_line(curve, number, x, y) for number, curve in enumerate(made)]
    parts = [head, drawn_axes(x, y, x_label, y_label), *lines, legend]
    return sheet.sheet(title, _in_words(made, x_label, y_label), height, "\n".join(parts), style=STYLE)


def _curve(name: str, points: Sequence[Point]) -> Curve:
    placed = sorted(((float(x), float(y)) for x, y in points if _drawable(x)), key=lambda point: point[0])
    pieces: list[list[Point]] = [[]]
    for point in placed:
        if _drawable(point[1]):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    kept = tuple(tuple(piece) for piece in pieces if piece)
    return Curve(name, kept, len(points) - sum(map(len, kept)))


def _drawable(value: float) -> bool:
    return math.isfinite(value) and abs(value) < AS_GOOD_AS_INFINITE


def _axes(points: Sequence[Point], top: float) -> tuple[Axis, Axis]:
    y = nice_axis([point[1] for point in points], top + PLOT_HEIGHT, top, most=6)
    numbers = max(sheet.text_width(y.tick_text(tick), sheet.SMALL_PX) for tick in y.ticks)
    left = sheet.MARGIN + 16 + numbers + 8
    xs = [point[0] for point in points]
    whole = all(value == int(value) for value in xs)
    return nice_axis(xs, left, sheet.WIDTH - RIGHT, most=6, whole=whole), y


def _line(curve: Curve, number: int, x: Axis, y: Axis) -> str:
    path = "".join(_path(_placed(piece, x, y)) for piece in curve.pieces)
    marks = [_mark(x.at(px), y.at(py), number) for px, py in _spread(curve.points)]
    return f"{_stroke(path, number)}{''.join(marks)}"


def _stroke(path: str, number: int) -> str:
    dash = DASHES[number % len(DASHES)]
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<path class="line{number % len(sheet.LIGHT.series)}"{dashed} d="{path}"/>'


def _mark(x: float, y: float, number: int) -> str:
    colour, shape = number % len(sheet.LIGHT.series), MARKERS[number % len(MARKERS)]
    return f'<path class="mark{colour}" transform="translate({num(x)} {num(y)})" d="{shape}"/>'


def _placed(piece: Sequence[Point], x: Axis, y: Axis) -> list[Point]:
    return _thinned([(x.at(px), y.at(py)) for px, py in piece])


def _thinned(places: Sequence[Point]) -> list[Point]:
    """At most four places for each pixel column: first, lowest, highest, last. Peaks are kept."""
    columns: dict[int, list[Point]] = {}
    for place in places:
        columns.setdefault(int(place[0]), []).append(place)
    return [place for column in columns.values() for place in _corners(column)]


def _corners(column: Sequence[Point]) -> Iterable[Point]:
    if len(column) <= 4:
        return column
    height = [place[1] for place in column]
    chosen = {0, height.index(min(height)), height.index(max(height)), len(column) - 1}
    return [column[i] for i in sorted(chosen)]


def _path(places: Sequence[Point]) -> str:
    return "M" + "L".join(f"{num(x)} {num(y)}" for x, y in places)


def _spread(points: Sequence[Point]) -> list[Point]:
    """A few of the points, evenly spread, the first and the last among them."""
    n = min(MARKERS_PER_CURVE, len(points))
    if n == 1:
        return list(points)
    return [points[round(i * (len(points) - 1) / (n - 1))] for i in range(n)]


def _legend(made: Sequence[Curve], top: float) -> tuple[str, float]:
    """(elements, the y below them): a sample of each curve, its name and where it ends."""
    rows = [
        _legend_row(curve, number, top + number * (sheet.LINE_PX + 2)) for number, curve in enumerate(made)
    ]
    return "\n".join(rows), top + (len(made) - 1) * (sheet.LINE_PX + 2) + sheet.MARGIN


def _legend_row(curve: Curve, number: int, y: float) -> str:
    left, middle = sheet.MARGIN, y - 4
    sample = _stroke(f"M{left} {num(middle)}h{SAMPLE_WIDTH}", number)
    sample += _mark(left + SAMPLE_WIDTH / 2, middle, number)
    room = sheet.WIDTH - 2 * sheet.MARGIN - SAMPLE_WIDTH - 8
    end = f" – {_ending(curve)}"
    name = sheet.cut(curve.name, room - sheet.text_width(end, sheet.TEXT_PX), sheet.TEXT_PX)
    titled = f"<title>{sheet.safe(curve.name)}</title>"
    return f"<g>{titled}{sample}{text(left + SAMPLE_WIDTH + 8, y, name + end)}</g>"


def _ending(curve: Curve) -> str:
    points = curve.points
    lost = f", {curve.n_not_finite} not finite" if curve.n_not_finite else ""
    return f"last {points[-1][1]:.5g}{lost}" if points else f"{curve.n_not_finite} not finite"


def _in_words(made: Sequence[Curve], x_label: str, y_label: str) -> str:
    start = f"Curves of {y_label} over {x_label}." if x_label else f"Curves of {y_label}."
    return " ".join([start, *(_curve_in_words(curve) for curve in made)])


def _curve_in_words(curve: Curve) -> str:
    points = curve.points
    lost = f" Points that are not finite: {curve.n_not_finite}." if curve.n_not_finite else ""
    if not points:
        return f"{curve.name}:{lost}"
    low, high = min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])
    return (
        f"{curve.name}: {len(points)} points, from {points[0][1]:.5g} to {points[-1][1]:.5g}, "
        f"lowest {low[1]:.5g} at {low[0]:g}, highest {high[1]:.5g} at {high[0]:g}.{lost}"
    )
