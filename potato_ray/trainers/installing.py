"""What an interpreter lacks, and how to install it there: a plain pip may be another one's."""

from __future__ import annotations

import shlex
import sys
from typing import Iterable

_PIP = "pip install "


def lacking(packages: Iterable[str], python: str = "", host: str = "") -> str:
    """`/usr/bin/python3 on gpu1 lacks torch, peft.`; without `python` this interpreter."""
    where = f"{python or sys.executable or 'This Python'}{f' on {host}' if host else ''}"
    return f"{where} lacks {', '.join(packages)}."


def into_python(python: str, hint: str) -> str:
    """`pip install x` for the interpreter `python`, written for a shell; any other hint as it stands."""
    if not hint.startswith(_PIP) or not python:
        return hint
    return f"{shlex.quote(python)} -m {hint}"


def into_this_python(hint: str) -> str:
    """The same for the interpreter that runs this."""
    return into_python(sys.executable, hint)
