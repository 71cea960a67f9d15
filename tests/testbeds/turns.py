"""Turns at the machine where several processes run tests: many tests at a time, or one marked `alone`.

How long something takes, or how much memory, cannot be told while another test starts a Ray beside it.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

FOLDER = "folder_of_turns"


def take_turns(config: pytest.Config) -> None:
    """Make the tests of all processes that pytest-xdist starts take turns."""
    told_by_host = getattr(config, "workerinput", None)
    plugin = Host() if told_by_host is None else Turns(Path(told_by_host[FOLDER]))
    config.pluginmanager.register(plugin)


class Host:
    """In the process that starts the others, if it does: a folder for their locks."""

    folder = ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_setupnodes(self, config: pytest.Config) -> None:
        self.folder = tempfile.mkdtemp(prefix="prt-turns-")
        config.add_cleanup(partial(shutil.rmtree, self.folder, ignore_errors=True))

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        node.workerinput[FOLDER] = self.folder


class Turns:
    """In each of the others: a test takes a turn, which begins with its fixtures.

    The locks are the kernel's: a process that dies gives its turn back. A turn is as long as pytest-timeout
    lets a test be, so nobody waits for ever.
    """

    def __init__(self, folder: Path) -> None:
        self._gate = folder / "gate"
        self._machine = folder / "machine"

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Modules that are `alone` as a whole come first: others keep servers for their next test."""
        items.sort(key=lambda item: not is_alone(item.getparent(pytest.Module)))

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around that of pytest-timeout, which counts no wait here
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        # One that waits to be alone holds the gate meanwhile; else those who may share would go on and on.
        kind = fcntl.LOCK_EX if is_alone(item) else fcntl.LOCK_SH
        with contextlib.ExitStack() as turn:
            with locked(self._gate, fcntl.LOCK_EX):
                turn.enter_context(locked(self._machine, kind))
            return (yield)


def is_alone(node: pytest.Item | pytest.Module | None) -> bool:
    return node is not None and node.get_closest_marker("alone") is not None


@contextlib.contextmanager
def locked(path: Path, kind: int) -> Iterator[None]:
    with path.open("a") as file:
        fcntl.flock(file, kind)
        try:
            yield
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child that was forked meanwhile has the file open still
