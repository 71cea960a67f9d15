"""The text as Potato's page shows it, and the way back: span offsets count characters of that one.

The page strips leading blanks, collapses runs of blanks (line ends included) to one space, drops HTML
tags and comments, and decodes entities. A comment that is never closed goes on to the end.
"""

from __future__ import annotations

import html
import re
from array import array

_PARTS = re.compile(
    r"(?P<tag><!--(?:-?>|.*?(?:--!?>|\Z))|</?[A-Za-z][^<>]*>)"
    r"|(?P<entity>&#?\w+;?)|(?P<blank>[ \t\n\r\f]+)|[^<&\s]+|.",
    re.DOTALL,
)
_BLANKS = " \t\n\r\f"


class DisplayedText:
    """One raw text as displayed. `text` is what the page shows, apart from trailing blanks."""

    def __init__(self, raw: str) -> None:
        self._starts = array("l")
        self._ends = array("l")
        shown: list[str] = []
        for part in _PARTS.finditer(raw):
            if part.lastgroup != "tag":
                self._show(part, shown)
        if shown and shown[-1] == " ":
            shown.pop()
        self.text = "".join(shown)

    def raw_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The raw offsets of displayed [start, end), in code points; None where no such span exists."""
        if not 0 <= start < end <= len(self.text):
            return None
        return self._starts[start], self._ends[end - 1]

    def _show(self, part: re.Match[str], shown: list[str]) -> None:
        start, end = part.span()
        text = part.group()
        if part.lastgroup == "entity" and (decoded := html.unescape(text)) != text:
            for character in decoded:
                self._append(character, start, end, shown)
            return
        for offset, character in enumerate(text, start):
            self._append(character, offset, offset + 1, shown)

    def _append(self, character: str, start: int, end: int, shown: list[str]) -> None:
        if character in _BLANKS:
            if not shown or shown[-1] == " ":
                return
            character = " "
        shown.append(character)
        self._starts.append(start)
        self._ends.append(end)
