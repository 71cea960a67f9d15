"""Parts of a test that a machine may lack: a laptop skips the test with a reason, CI fails it."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """End the test: the part that `reason` names is not here."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason, allow_module_level=True)


def need_command(name: str) -> str:
    """The path of a command."""
    return shutil.which(name) or missing(f"{name} is not installed")


def need_module(*names: str) -> None:
    """Modules that trainers need and a base install lacks; nothing is imported. Also at the top of a module.

    POTATO_RAY_WITHOUT lists what `./run test` left out on purpose: that is skipped in CI too.
    """
    absent = [name for name in names if importlib.util.find_spec(name) is None]
    left_out = os.environ.get("POTATO_RAY_WITHOUT", "").split()
    if absent and set(absent) <= set(left_out):
        pytest.skip(f"{', '.join(absent)}: left out on this Python", allow_module_level=True)
    if absent:
        missing(f"{', '.join(absent)} not installed")


def need_python38() -> str:
    """The path of a Python 3.8, which the shipped part must run on."""
    # pyenv's own python3.8 on PATH is a script that fails where 3.8 is not the chosen version.
    installed = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    found = str(installed[0]) if installed else shutil.which("python3.8")
    return found or missing("there is no Python 3.8 here")
