"""The sheet that every picture is drawn on: an SVG with title, description, colours and safe text.

Sizes are in user units, one of which is a CSS pixel at the picture's own size. All colours are classes,
given for light and dark; each picture paints its own ground, so it can lie on any page.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from html import escape

WIDTH = 390  # a phone in portrait
MARGIN = 14
TITLE_PX = 15
TEXT_PX = 12
SMALL_PX = 11
LINE_PX = 16
BOLD = 1.1  # how much wider bold letters are


@dataclass(frozen=True)
class Theme:
    """The colours of one mode; `series` are for curves, all at least 3:1 on the paper."""

    paper: str
    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]


LIGHT = Theme(
    paper="#ffffff",
    ink="#1b1f24",
    muted="#57606a",
    grid="#d8dee4",
    series=("#0b57d0", "#b3261e", "#146c2e", "#7b4397", "#8a5a00", "#00677f"),
)
DARK = Theme(
    paper="#16191d",
    ink="#e6e8eb",
    muted="#a0a8b1",
    grid="#3a4149",
    series=("#8ab4f8", "#f2958f", "#7fd39a", "#d7aefb", "#f0c05a", "#6fd6ea"),
)
FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

# What XML 1.0 has no way to write, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def sheet(title: str, desc: str, height: float, body: str, width: float = WIDTH, style: str = "") -> str:
    """The whole SVG; `desc` says in words what `body` shows, `style` are further scoped CSS rules."""
    name = hashlib.sha256(f"{title}\0{desc}".encode(errors="replace")).hexdigest()[:12]
    w, h = num(width), num(height)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" class="potato-picture" role="img" \
aria-labelledby="t{name} d{name}" width="{w}" height="{h}" viewBox="0 0 {w} {h}" \
style="max-width:100%;height:auto">
<title id="t{name}">{safe(title)}</title>
<desc id="d{name}">{safe(desc)}</desc>
<style>
{_base_style()}{style}</style>
<rect class="paper" width="{w}" height="{h}" rx="6"/>
{body}
</svg>
"""


def empty_sheet(title: str, why: str) -> str:
    """A sheet that only says why there is nothing to draw."""
    head, top = heading(title)
    line = text(MARGIN, top + LINE_PX, why, "muted")
    return sheet(title, why, top + 2 * LINE_PX + MARGIN, f"{head}\n{line}")


def heading(title: str, width: float = WIDTH) -> tuple[str, float]:
    """(elements, the y where the picture can begin): the title, on two lines if it needs them."""
    lines = wrapped(title, width - 2 * MARGIN, TITLE_PX * BOLD, most=2)
    step = TITLE_PX + 4
    drawn = [text(MARGIN, MARGIN + TITLE_PX + i * step, line, "title") for i, line in enumerate(lines)]
    return "\n".join(drawn), MARGIN + len(lines) * step + 6


def caption(y: float, said: str, width: float = WIDTH) -> tuple[str, float]:
    """(elements, the y below them): a note under the picture, its first line at `y`."""
    lines = wrapped(said, width - 2 * MARGIN, SMALL_PX, most=6)
    drawn = [text(MARGIN, y + i * LINE_PX, line, "small muted") for i, line in enumerate(lines)]
    return "\n".join(drawn), y + (len(lines) - 1) * LINE_PX + MARGIN


def text(
    x: float,
    y: float,
    said: str,
    classes: str = "",
    anchor: str = "start",
    upward: bool = False,
    px: float = 0,
) -> str:
    """One line of text; `upward` turns it to read from below, `px` overrides the size of its class."""
    turn = f' transform="rotate(-90 {num(x)} {num(y)})"' if upward else ""
    size = f' style="font-size:{num(px)}px"' if px else ""
    named = f' class="{classes}"' if classes else ""
    return f'<text x="{num(x)}" y="{num(y)}" text-anchor="{anchor}"{named}{size}{turn}>{safe(said)}</text>'


def safe(said: str) -> str:
    """The text as XML can hold it: escaped, on one line, with U+FFFD for what XML can't write."""
    return escape(_NOT_XML.sub("\ufffd", " ".join(said.split())))


def num(value: float) -> str:
    """A coordinate, to a tenth."""
    # Adding zero turns -0.0 into 0.0.
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def text_width(said: str, px: float) -> float:
    """About how wide a text is in a wide sans-serif font of `px`: rather too wide than too narrow."""
    return sum(_em(char) for char in said) * px


def _em(char: str) -> float:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.0
    if char in "iljtfrI.,:;|!'()[] ":
        return 0.38
    return 0.95 if char in "mwMW@%" else 0.74 if char.isupper() else 0.63


def cut(said: str, room: float, px: float) -> str:
    """The text, cut with … where it is wider than `room`; a letter keeps its accents or goes."""
    said = " ".join(said.split())
    if text_width(said, px) <= room:
        return said
    end = len(said)
    while end and (text_width(said[:end], px) > room - px or _joined(said, end)):
        end -= 1
    return said[:end].rstrip() + "…"


def _joined(said: str, place: int) -> bool:
    """Whether the characters before and at `place` belong to one letter."""
    at = said[place : place + 1]
    return bool(at) and (_em(at) == 0.0 or said[place - 1] == "\u200d")


def wrapped(said: str, room: float, px: float, most: int) -> list[str]:
    """The text on at most `most` lines; the last one is cut when there is more."""
    lines = [""]
    for word in said.split():
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, px) <= room or not lines[-1] or len(lines) == most:
            lines[-1] = longer
        else:
            lines.append(word)
    return [cut(line, room, px) for line in lines]


def _base_style() -> str:
    return f"""\
.potato-picture text {{ font: {TEXT_PX}px {FONTS}; fill: var(--ink); }}
.potato-picture .title {{ font-size: {TITLE_PX}px; font-weight: 600; }}
.potato-picture .small {{ font-size: {SMALL_PX}px; }}
.potato-picture .muted {{ fill: var(--muted); }}
.potato-picture .paper {{ fill: var(--paper); }}
.potato-picture .grid {{ stroke: var(--grid); fill: none; }}
.potato-picture .axis {{ stroke: var(--muted); fill: none; }}
.potato-picture {{ {_variables(LIGHT)} }}
@media (prefers-color-scheme: dark) {{ .potato-picture {{ {_variables(DARK)} }} }}
"""


def _variables(theme: Theme) -> str:
    series = "".join(f" --series{i}: {colour};" for i, colour in enumerate(theme.series))
    return (
        f"--paper: {theme.paper}; --ink: {theme.ink}; --muted: {theme.muted}; --grid: {theme.grid};{series}"
    )
