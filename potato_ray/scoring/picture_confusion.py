"""The confusion matrix as a picture: how often each human label was predicted as which."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from potato_ray.scoring import picture_shades as shades
from potato_ray.scoring import picture_sheet as sheet
from potato_ray.scoring.picture_sheet import num, safe, text

MOST_LABELS = 30
OTHERS = "other labels"

LABEL_ROOM = 108
CELL_MOST = (112, 52)
CELL_LEAST = 36  # below it, a cell has no room for the share
CELL_SMALL = 26
LEAST_PX = 8  # counts that would be smaller are shortened
WIDE_COLUMNS = 14  # more columns than this get small cells

HIT_STYLE = ".potato-picture .hit rect { stroke: var(--ink); stroke-width: 1.5; }\n"


@dataclass(frozen=True)
class Table:
    """What is drawn: `counts[i][j]` items of the human label `rows[i]` were predicted as `columns[j]`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    n_items: int
    n_labels: int


@dataclass(frozen=True)
class Layout:
    """Where the cells are, in user units."""

    left: float
    top: float
    cell_width: float
    cell_height: float
    width: float
    names_height: float
    upward: bool

    @property
    def small(self) -> bool:
        """Whether a cell has room for one number only."""
        return self.cell_width < CELL_LEAST


def confusion_matrix(
    labels: Sequence[str], matrix: Sequence[Sequence[int]], title: str, predicted: Sequence[str] | None = None
) -> str:
    """The matrix as SVG: rows are human labels, columns predicted ones, shaded by their share of the row.

    `predicted` names the columns: `labels`, then perhaps more ("no prediction"). Beyond 30 labels only the
    most frequent are drawn, the columns of the rest summed up as one. Raises ValueError when the matrix
    isn't of that shape.
    """
    columns = list(labels if predicted is None else predicted)
    _check_shape(labels, matrix, columns)
    if not labels:
        return sheet.empty_sheet(title, "There are no labelled items to compare with.")
    table = _table(labels, matrix, columns)
    layout = _layout(table)
    head, top = sheet.heading(title, layout.width)
    layout = replace(layout, top=layout.top + top)
    below = layout.top + layout.cell_height * len(table.rows) + sheet.LINE_PX + 4
    note, height = sheet.caption(below, _note(table), layout.width)
    body = "\n".join([head, _names(table, layout), _cells(table, layout), note])
    return sheet.sheet(title, _in_words(table), height, body, layout.width, shades.style() + HIT_STYLE)


def _check_shape(labels: Sequence[str], matrix: Sequence[Sequence[int]], columns: list[str]) -> None:
    if columns[: len(labels)] != list(labels):
        raise ValueError("the predicted labels must begin with the human ones, in their order")
    if len(matrix) != len(labels) or any(len(row) != len(columns) for row in matrix):
        raise ValueError(f"the confusion matrix must have {len(labels)} rows of {len(columns)} counts")


def _table(labels: Sequence[str], matrix: Sequence[Sequence[int]], columns: list[str]) -> Table:
    totals = [sum(int(count) for count in row) for row in matrix]
    by_size = sorted(range(len(labels)), key=lambda i: -totals[i])
    kept = sorted(by_size[:MOST_LABELS])
    rest = sorted(by_size[MOST_LABELS:])
    extra = range(len(labels), len(columns))
    others = [OTHERS] if rest else []

    def drawn(row: Sequence[int]) -> tuple[int, ...]:
        summed_up = [sum(int(row[j]) for j in rest)] if rest else []
        return (*(int(row[j]) for j in kept), *summed_up, *(int(row[j]) for j in extra))

    return Table(
        rows=tuple(labels[i] for i in kept),
        columns=(*(labels[i] for i in kept), *others, *(columns[j] for j in extra)),
        counts=tuple(drawn(matrix[i]) for i in kept),
        n_items=sum(totals),
        n_labels=len(labels),
    )


def _layout(table: Table) -> Layout:
    """The cells' places under a heading of no height."""
    n = len(table.columns)
    left = sheet.MARGIN + 16 + min(LABEL_ROOM, _widest(table.rows)) + 8
    room = sheet.WIDTH - sheet.MARGIN - left
    if n > WIDE_COLUMNS:
        width: float = CELL_SMALL
    else:
        width = max(CELL_LEAST, min(CELL_MOST[0], room / n))
    widest = _widest(table.columns)
    upward = widest > width - 4
    names = min(LABEL_ROOM, widest) + 10 if upward else sheet.LINE_PX + 6.0
    return Layout(
        left=left,
        top=sheet.LINE_PX + names,
        cell_width=width,
        cell_height=min(CELL_MOST[1], width),
        width=max(sheet.WIDTH, left + n * width + sheet.MARGIN),
        names_height=names,
        upward=upward,
    )


def _widest(names: Sequence[str]) -> float:
    return max(sheet.text_width(" ".join(name.split()), sheet.TEXT_PX) for name in names)


def _names(table: Table, layout: Layout) -> str:
    """The labels beside the rows and above the columns, and which side is which."""
    middle_x = layout.left + layout.cell_width * len(table.columns) / 2
    middle_y = layout.top + layout.cell_height * len(table.rows) / 2
    side = sheet.MARGIN + sheet.SMALL_PX
    drawn = [
        text(middle_x, layout.top - layout.names_height, "predicted", "small muted", "middle"),
        text(side, middle_y, "human", "small muted", "middle", upward=True),
    ]
    for i, name in enumerate(table.rows):
        drawn.append(_name(name, layout.left - 8, layout.top + (i + 0.5) * layout.cell_height + 4, "end"))
    drawn += [_column_name(name, j, layout) for j, name in enumerate(table.columns)]
    return "\n".join(drawn)


def _column_name(name: str, j: int, layout: Layout) -> str:
    x, y = layout.left + (j + 0.5) * layout.cell_width, layout.top - 6
    if layout.upward:
        return _name(name, x + 4, y, "start", upward=True)
    return _name(name, x, y, "middle")


def _name(name: str, x: float, y: float, anchor: str, upward: bool = False) -> str:
    short = sheet.cut(name, LABEL_ROOM, sheet.TEXT_PX)
    return f"<g><title>{safe(name)}</title>{text(x, y, short, anchor=anchor, upward=upward)}</g>"


def _cells(table: Table, layout: Layout) -> str:
    return "\n".join(
        _cell(table, layout, i, j) for i in range(len(table.rows)) for j in range(len(table.columns))
    )


def _cell(table: Table, layout: Layout, i: int, j: int) -> str:
    count, total = table.counts[i][j], sum(table.counts[i])
    x, y = layout.left + j * layout.cell_width, layout.top + i * layout.cell_height
    level = round(shades.N_SHADES * count / total) if total else 0
    right = " hit" if i == j else ""
    said = f"{table.rows[i]} → {table.columns[j]}: {count} of {total} ({percent(count, total)})"
    return (
        f'<g class="s{level}{right}"><title>{safe(said)}</title>'
        f'<rect x="{num(x + 1)}" y="{num(y + 1)}" '
        f'width="{num(layout.cell_width - 2)}" height="{num(layout.cell_height - 2)}" rx="2"/>'
        f"{_numbers(count, total, layout, x + layout.cell_width / 2, y + layout.cell_height / 2)}</g>"
    )


def _numbers(count: int, total: int, layout: Layout, x: float, y: float) -> str:
    room = layout.cell_width - 5
    said = str(count) if sheet.text_width(str(count), LEAST_PX) <= room else compact(count)
    px = min(sheet.TEXT_PX + 1.0, room / sheet.text_width(said, 1.0))
    if layout.small or not count:
        return text(x, y + px * 0.35, said, anchor="middle", px=px)
    share = text(x, y + 12, percent(count, total), anchor="middle", px=sheet.SMALL_PX - 1)
    return text(x, y - 1, said, anchor="middle", px=px) + share


def compact(count: int) -> str:
    """A large count in two or three digits, rounded down: 1.2k, 34k, 5.6M."""
    size, unit = (1_000_000, "M") if count >= 1_000_000 else (1_000, "k")
    return f"{count // size}{unit}" if count >= 10 * size else f"{count * 10 // size / 10:.1f}{unit}"


def percent(count: int, total: int) -> str:
    """A share for people: never 0% for something, nor 100% for less than all."""
    if not total:
        return "–"
    if 0 < count < 0.005 * total:
        return "<1%"
    if 0.995 * total < count < total:
        return ">99%"
    return f"{100 * count / total:.0f}%"


def _note(table: Table) -> str:
    n = sum(map(sum, table.counts))
    said = f"{n} items. Shades and percentages are shares of the row; framed: as the human said."
    return f"{said} {_left_out(table)}".strip()


def _left_out(table: Table) -> str:
    if table.n_labels <= len(table.rows):
        return ""
    drawn = sum(map(sum, table.counts))
    return (
        f"Only the {len(table.rows)} most frequent of {table.n_labels} labels are drawn, "
        f"with {drawn} of {table.n_items} items."
    )


def _in_words(table: Table) -> str:
    hits = sum(row[i] for i, row in enumerate(table.counts))
    drawn = sum(map(sum, table.counts))
    rows = " ".join(_row_in_words(table, i) for i in range(len(table.rows)))
    start = (
        f"Confusion matrix: {hits} of {drawn} items ({percent(hits, drawn)}) are predicted as the human said."
    )
    return " ".join(part for part in (start, _left_out(table), rows) if part)


def _row_in_words(table: Table, i: int) -> str:
    """A row's count and its three most frequent predictions."""
    row = table.counts[i]
    if not sum(row):
        return f"{table.rows[i]}: no items."
    largest = sorted((j for j, count in enumerate(row) if count), key=lambda j: -row[j])[:3]
    parts = [f"{row[j]} as {table.columns[j]}" for j in largest]
    left = sum(row) - sum(row[j] for j in largest)
    if left:
        parts.append(f"{left} as something else")
    return f"{table.rows[i]}: {sum(row)} items, {', '.join(parts)}."
