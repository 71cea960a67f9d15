"""What an interpreter lacks, and how to install it there: a plain pip may be another one's."""

from __future__ import annotations

import shlex
import sys
from typing import Iterable

from potato_ray.trainers.base import TrainerError

_PIP = "pip install "


def lacking(packages: Iterable[str], python: str = "", host: str = "") -> str:
    """`/usr/bin/python3 on gpu1 lacks torch, peft.`; without `python` this interpreter."""
    where = f"{python or sys.executable or 'This Python'}{f' on {host}' if host else ''}"
    return f"{where} lacks {', '.join(packages)}."


def missing_dependency(missing: ImportError, hint: str, user: str = "") -> TrainerError:
    """What to raise from an import that has failed here; `user` is who wanted it, as `sklearn.svm.SVC`."""
    absent = missing.name if isinstance(missing, ModuleNotFoundError) else None
    said = lacking([absent.partition(".")[0]]) if absent else str(missing)
    message = f"{user} could not be imported: {said}" if user else said
    return TrainerError("missing_dependency", message, into_this_python(hint))


def into_python(python: str, hint: str) -> str:
    """`pip install x` for the interpreter `python`, written for a shell; any other hint as it stands."""
    if not hint.startswith(_PIP) or not python:
        return hint
    return f"{shlex.quote(python)} -m {hint}"


def into_this_python(hint: str) -> str:
    """The same for the interpreter that runs this."""
    return into_python(sys.executable, hint)
