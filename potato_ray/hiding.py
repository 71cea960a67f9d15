"""Paths in messages: what lies in the project is named from its folder, all else by its last part alone.

/srv/study/data/reviews.csv     →  data/reviews.csv        (the project is /srv/study)
/home/ann/.cache/hub/model.bin  →  …/model.bin
/openapi.json, http://a/b/c     →  the same
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

_BEFORE = r"(?<![\w.…~/-])"
_ENDS = r"""(?=[\s/'"`:;,()<>\[\]{}|&?*=!#…]|\.?$|\.\s)"""
# Of limited length: each word of a text may begin one, and must not be read to the text's end for it.
_URL = r"\b(?!file:)[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'\"<>]+"
_ROUTE = (
    rf"{_BEFORE}/(?:admin/(?:training|login|logout|model-review)|api/training|health|openapi\.json|static)"
    rf"{_ENDS}[^\s'\"<>]*"
)
_QUOTED = r"""(?P<quote>['"`])(?P<inner>/(?:(?!(?P=quote))[^\n])*)(?P=quote)"""
# A comma or colon belongs to a path when it goes on behind it, as in train.py:12.
_PART = r"""(?:[^\s/'"`:;,()<>\[\]{}|&?*=…]|[:;,=](?=[^\s/'"`:;,()<>\[\]{}|&?*=…]))+"""
# So does a blank when what follows has a slash inside.
_BARE = (
    rf"(?:\bfile:|(?<![\w.…~/<-]))/+"
    rf"(?P<bare>{_PART}(?:(?:/+|\ (?={_PART}/{_PART}))(?!/){_PART})*)/*"
)
_INSTALL = " -m pip install "
_INTERPRETER = re.compile(r"'/[^'\n]*'$|(?<![^\s(])/[^\s'\"]*$")
_INTERPRETER_MAX = 400
_PATHS = re.compile(f"{_QUOTED}|(?P<kept>{_URL}|{_ROUTE})|{_BARE}")


def hide_paths(text: str, project: Path) -> str:
    """`text` without a path outside the project. `project` is the project's folder, absolute.

    Takes time in proportion to the length of the text, whatever it holds.
    """
    return (_remembered if len(text) <= _REMEMBERED_MAX else _without_paths)(text, project)


def hide_paths_but_installs(text: str, project: Path) -> str:
    """The same, but for the interpreter in `/opt/v/bin/python -m pip install torch`: for those who run it."""
    *before, rest = text.split(_INSTALL)
    parts = [_up_to_interpreter(part, project) + _INSTALL for part in before]
    return "".join([*parts, hide_paths(rest, project)])


def _up_to_interpreter(text: str, project: Path) -> str:
    """What stands before an installation; its last word is the interpreter, if that is a path."""
    found = _INTERPRETER.search(text[-_INTERPRETER_MAX:])
    if not found:
        return hide_paths(text, project)
    return hide_paths(text[: -len(found[0])], project) + found[0]


def _without_paths(text: str, project: Path) -> str:
    for inside, folder, name in _of_project(project):
        text = folder.sub(f"…/{name}", inside.sub("", text))
    return _PATHS.sub(_hidden, text)


_REMEMBERED_MAX = 2000
"""Characters of a text whose outcome is kept: a run's warnings are told again with each status."""
_remembered = lru_cache(maxsize=512)(_without_paths)


@lru_cache(maxsize=8)
def _of_project(project: Path) -> tuple[tuple[re.Pattern[str], re.Pattern[str], str], ...]:
    """What to take from paths inside, and the folder itself: as given, and with its links resolved."""
    ways = {str(project), str(project.resolve())} - {"/", "."}
    found = []
    for way in sorted(ways, key=len, reverse=True):
        start = rf"{_BEFORE}(?:file://)?{re.escape(way)}"
        name = way.rsplit("/", 1)[-1].replace("\\", r"\\")
        found.append((re.compile(rf"{start}/+(?=[^\s/'\"`:;,)\]}}>])"), re.compile(f"{start}{_ENDS}"), name))
    return tuple(found)


def _hidden(found: re.Match[str]) -> str:
    if found["kept"]:
        return found["kept"]
    if found["inner"]:
        return f"{found['quote']}{_shortened(found['inner'])}{found['quote']}"
    return _last_part(found["bare"])


def _shortened(inner: str) -> str:
    """A quoted text that begins like a path: a route stays, anything else is a path as a whole."""
    return inner if re.fullmatch(_ROUTE, inner) else _last_part(inner)


def _last_part(path: str) -> str:
    stripped = path.rstrip("/")
    return f"…/{stripped.rsplit('/', 1)[-1]}" if stripped else path
