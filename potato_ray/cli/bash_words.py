"""Completion in bash, for which = ends a word: `--param mode=q` comes as mode, = and q."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator, MutableMapping

_COMPLETES = ("_POTATO_RAY_COMPLETE", "complete_bash")
_TAKE_A_PAIR = ("--param", "-p")


@contextlib.contextmanager
def pairs_as_words() -> Iterator[None]:
    """Let name=value be one word while bash asks for completions; without effect otherwise.

    What is offered is printed at the end, without the part up to the = that bash keeps.
    """
    name, asked = _COMPLETES
    if os.environ.get(name) != asked:
        yield
        return
    kept = join_words(os.environ)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield
    finally:
        sys.stdout.write("".join(f"{line.removeprefix(kept)}\n" for line in said.getvalue().splitlines()))


def join_words(environ: MutableMapping[str, str]) -> str:
    """Make one word of each pair that bash has handed over; what bash keeps of the one that is completed."""
    words, at = environ.get("COMP_WORDS", "").split("\n"), int(environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    current = at
    for number, word in enumerate(words):
        if _goes_on(joined, word):
            joined[-1] += word
            current -= number <= at
        else:
            joined.append(word)
    environ["COMP_WORDS"], environ["COMP_CWORD"] = "\n".join(joined), str(current)
    name, equals, _ = "".join(joined[current : current + 1]).partition("=")
    return name + equals if equals else ""


def _goes_on(before: list[str], word: str) -> bool:
    """Whether `word` belongs to the pair that is the last of the words before it."""
    if len(before) < 2 or before[-2] not in _TAKE_A_PAIR:
        return False
    return word == "=" or (before[-1].endswith("=") and not word.startswith("-"))
