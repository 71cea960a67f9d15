"""Parts of a test that a machine may lack: a laptop skips the test with a reason, CI fails it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """End the test: the part that `reason` names is not here."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def need_command(name: str) -> str:
    """The path of a command."""
    return shutil.which(name) or missing(f"{name} is not installed")


def need_python38() -> str:
    """The path of a Python 3.8, which the shipped part must run on."""
    # pyenv's own python3.8 on PATH is a script that fails where 3.8 is not the chosen version.
    installed = sorted(Path.home().glob(".pyenv/versions/3.8.*/bin/python"))
    found = str(installed[0]) if installed else shutil.which("python3.8")
    return found or missing("there is no Python 3.8 here")
