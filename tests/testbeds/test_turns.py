"""Turns at the machine: many tests have it at a time, or one alone."""

from __future__ import annotations

import fcntl
import threading
import time
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from turns import Turns

DEADLINE_S = 20.0


def begun(folder: Path, *, alone: bool = False) -> Generator[None, object, object]:
    """The turn of a test in a process of its own, as soon as it can begin."""
    item: Any = SimpleNamespace(get_closest_marker={"alone": alone or None}.get)
    turn = Turns(folder).pytest_runtest_protocol(item)
    next(turn)
    return turn


def ended(turn: Generator[None, object, object]) -> None:
    with pytest.raises(StopIteration):
        turn.send(None)


def is_free(lock: Path, kind: int = fcntl.LOCK_EX) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_tests_run_beside_one_another(tmp_path: Path) -> None:
    turns = [begun(tmp_path), begun(tmp_path)]
    for turn in turns:
        assert not is_free(tmp_path / "machine")
        ended(turn)
    assert is_free(tmp_path / "machine")


def test_beside_one_that_is_alone_none_runs(tmp_path: Path) -> None:
    turn = begun(tmp_path, alone=True)
    assert not is_free(tmp_path / "machine", fcntl.LOCK_SH)
    ended(turn)
    assert is_free(tmp_path / "machine")


def test_none_begins_before_the_one_that_waits_to_be_alone(tmp_path: Path) -> None:
    before = begun(tmp_path)
    waiting = threading.Thread(target=lambda: ended(begun(tmp_path, alone=True)), daemon=True)
    waiting.start()
    deadline = time.monotonic() + DEADLINE_S
    while is_free(tmp_path / "gate"):
        assert time.monotonic() < deadline, "nobody waits at the gate"
        time.sleep(0.01)
    assert waiting.is_alive()
    ended(before)
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()
    assert is_free(tmp_path / "gate")


def test_modules_that_are_alone_as_a_whole_come_first(tmp_path: Path) -> None:
    modules: list[Any] = [SimpleNamespace(get_closest_marker={"alone": alone}.get) for alone in (None, True)]
    items: list[Any] = [SimpleNamespace(getparent=lambda _, of=of: of) for of in (*modules, *modules)]
    Turns(tmp_path).pytest_collection_modifyitems(changed := items[:])
    assert changed == [items[1], items[3], items[0], items[2]]
