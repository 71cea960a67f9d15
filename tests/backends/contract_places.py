"""The backends that the contract tests run against, and what those tests do around them.

A new backend is a class here and a line in PLACES. What it needs besides (an sshd, a scheduler) comes from
fixtures, by `request.getfixturevalue`. Where a backend rightly does otherwise than most, its place says so.
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
from agent_place import WITHOUT_TOKEN, AgentSite
from fake_backend import FakeBackend, FakeMachine
from job_making import make_job
from slurm_place import SlurmSite
from ssh_place import SshSite

from potato_ray.backends.base import Backend, Job
from potato_ray.backends.gpus import Card
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.job.folder import JobFolder

FREE_MB = (9000, 30000, 20000)
"""What the GPUs of a place have free unless a test says otherwise."""

MakeJob = Callable[..., Job]


class ContractPlace(Protocol):
    """A place where runs execute, and what may happen to it."""

    gives_gpus: bool = True
    """Whether the backend chooses a run's GPU, so that no two runs share one."""
    device: str = "cuda"
    """The kind of device that a run gets where there are GPUs."""
    is_seen_alone: bool = True
    """Whether it is known that a job is gone while nobody follows it."""
    gone_meanwhile: tuple[str, str] = ("interrupted", "")
    """Status and error code of a run that was gone when somebody came to follow it."""

    def backend(self) -> Backend:
        """The backend; each call makes another one, as each process that works with it does."""
        ...

    def unfit(self) -> Backend:
        """One on which no run could start."""
        ...

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        """Give the place these GPUs and no others; their uuids."""
        ...

    def make_job(self, folder: Path, play: str) -> Job:
        """A job that nobody has executed yet, in `folder` or where the place wants it."""
        return make_job(folder, play)

    def let_go(self, job: Job) -> None:
        """Let the worker that waits for a word go on."""
        (job.folder / "go").touch()

    def lose(self, folder: Path) -> None:
        """Let every process of a job be gone at once, without a word, as when the power fails."""
        ...

    def clear_up(self, job: Job) -> None:
        """End what is alive of a job."""
        if self.backend().alive(job.folder):
            self.lose(job.folder)


class FakePlace(ContractPlace):
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


class LocalPlace(ContractPlace):
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


class AgentPlace(ContractPlace):
    """A machine that asks the server for work: a real agent, over the server's real routes."""

    gives_gpus = False  # whoever is at that machine decides
    device = "auto"
    gone_meanwhile = ("error", "killed")  # the agent was there to tell it

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.site: AgentSite = request.getfixturevalue("site")

    def backend(self) -> Backend:
        return self.site.backend()

    def unfit(self) -> Backend:
        return self.site.backend(WITHOUT_TOKEN)

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        return self.site.have_cards(free_mb)

    def make_job(self, folder: Path, play: str) -> Job:
        return self.site.make_job(play)

    def let_go(self, job: Job) -> None:
        self.site.let_go(job)

    def lose(self, folder: Path) -> None:
        self.site.lose(folder.name)

    def clear_up(self, job: Job) -> None:
        self.site.clear_up(job)


class SshPlace(ContractPlace):
    """A host that is logged in to: a real sshd, a real agent, and the server's socket for agents."""

    is_seen_alone = False  # the connection goes with the follower
    gone_meanwhile = ("error", "killed")  # the agent tells it to the next one

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.site: SshSite = request.getfixturevalue("host")

    def backend(self) -> Backend:
        return self.site.backend()

    def unfit(self) -> Backend:
        return self.site.backend(python="/nonexistent/python")

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        return self.site.have_cards(free_mb)

    def make_job(self, folder: Path, play: str) -> Job:
        return self.site.make_job(play)

    def let_go(self, job: Job) -> None:
        self.site.let_go(job)

    def lose(self, folder: Path) -> None:
        self.site.lose(folder.name)

    def clear_up(self, job: Job) -> None:
        self.site.clear_up(job)


class SlurmPlace(ContractPlace):
    """A real SLURM, behind a login node that is logged in to over a real sshd."""

    gives_gpus = False  # SLURM does
    is_seen_alone = False
    gone_meanwhile = ("error", "killed")  # the agent tells it to the next one

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self.site: SlurmSite = request.getfixturevalue("login_node")

    def backend(self) -> Backend:
        return self.site.backend()

    def unfit(self) -> Backend:
        return self.site.backend(env={"PATH": "/nonexistent"})

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        return self.site.have_cards(free_mb)

    def make_job(self, folder: Path, play: str) -> Job:
        return self.site.make_job(play)

    def let_go(self, job: Job) -> None:
        self.site.let_go(job)

    def lose(self, folder: Path) -> None:
        self.site.lose(folder.name)

    def clear_up(self, job: Job) -> None:
        self.site.clear_up(job)


PLACES: dict[str, type[ContractPlace]] = {
    "fake": FakePlace,
    "local": LocalPlace,
    "agent": AgentPlace,
    "ssh": SshPlace,
    "slurm": SlurmPlace,
}
GIVING = [name for name, kind in PLACES.items() if kind.gives_gpus]
"""The places that choose a run's GPU; KEEPING are the others."""
KEEPING = [name for name in PLACES if name not in GIVING]
