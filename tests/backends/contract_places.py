"""The backends that the contract tests run against, and what those tests do around them.

A new backend is a class here and a line in PLACES. What it needs besides (an sshd, a scheduler) comes from
fixtures, by `request.getfixturevalue`.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import fake_nvidia_smi
import pytest
from fake_backend import FakeBackend, FakeMachine

from potato_ray.backends.base import Backend, Job
from potato_ray.backends.gpus import Card
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.job.folder import JobFolder

FREE_MB = (9000, 30000, 20000)
"""What the GPUs of a place have free unless a test says otherwise."""

MakeJob = Callable[..., Job]


class ContractPlace(Protocol):
    """A place where runs execute, and what may happen to it."""

    def backend(self) -> Backend:
        """The backend; each call makes another one, as each process that works with it does."""
        ...

    def unfit(self) -> Backend:
        """One on which no run could start."""
        ...

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        """Give the place these GPUs and no others; their uuids."""
        ...

    def lose(self, folder: Path) -> None:
        """Let every process of a job be gone at once, without a word, as when the power fails."""
        ...


class FakePlace:
    """Threads that play workers."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.machine = FakeMachine()

    def backend(self) -> Backend:
        return FakeBackend(self.machine)

    def unfit(self) -> Backend:
        return FakeBackend(self.machine, ready=False)

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        cards = (Card(n, f"GPU-{n}", "X", 40000, free) for n, free in enumerate(free_mb))
        self.machine.cards = tuple(cards)
        return [card.uuid for card in self.machine.cards]

    def lose(self, folder: Path) -> None:
        self.machine.lose(folder)


class LocalPlace:
    """This machine, with a stand-in for nvidia-smi."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.smi_dir: Path = request.getfixturevalue("smi_dir")

    def backend(self, python: str = sys.executable) -> Backend:
        return LocalBackend("local", LocalSettings(python=python), ask_torch=lambda python: None)

    def unfit(self) -> Backend:
        return self.backend(python="/nonexistent/python")

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        return fake_nvidia_smi.write_cards(self.smi_dir, free_mb)

    def lose(self, folder: Path) -> None:
        processes = JobFolder(folder).read_processes()
        assert processes is not None
        os.kill(processes.launcher.pid, signal.SIGKILL)  # the worker goes with it


PLACES: dict[str, Callable[[pytest.FixtureRequest], ContractPlace]] = {
    "fake": FakePlace,
    "local": LocalPlace,
}
