"""A line that installs names the interpreter that lacks the package."""

from __future__ import annotations

import sys

import pytest

from potato_ray.trainers.installing import into_this_python


@pytest.mark.parametrize(
    ("executable", "line"),
    [
        ("/opt/venv/bin/python", "/opt/venv/bin/python -m pip install xgboost"),
        ("/home/a b/python", "'/home/a b/python' -m pip install xgboost"),
        ("", "pip install xgboost"),
        (None, "pip install xgboost"),
    ],
)
def test_pip_is_that_of_this_interpreter(
    monkeypatch: pytest.MonkeyPatch, executable: str | None, line: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    assert into_this_python("pip install xgboost") == line


@pytest.mark.parametrize("hint", ["", "Ask your administrator.", "conda install rdkit"])
def test_another_hint_stays_as_it_is(hint: str) -> None:
    assert into_this_python(hint) == hint
