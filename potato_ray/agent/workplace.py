"""Where the worker of a job in hand runs: what JobRun needs of such a place.

    prepare ── (the bundle comes) ── spec, start ─▶ state, again and again ─▶ ended or gone ─▶ end, failure
                                              cancel, again and again, once somebody wants it

One object for one job, for one thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from potato_ray.agent.held_job import Failure


class Workplace(ABC):
    """A place for workers. Nothing here raises OSError unless it says so."""

    python: str
    """The interpreter of the worker."""
    after_grace_s: float
    """How long a worker may go on beyond its grace, until it is left to `end`."""
    may_go_on = False
    """Whether `end` came to nothing, so that who clears up later has to know of the job."""

    @abstractmethod
    def has_started(self) -> bool:
        """Whether a worker was started here, or asked for, by an agent before this one perhaps."""

    def prepare(self, code: Path) -> None:  # noqa: B027 - most places have nothing to prepare
        """The code of the job is there, and its bundle still comes."""

    @abstractmethod
    def spec(self) -> dict[str, Any]:
        """What spec.json says here, just before the start. Raises NotLaunched where there is no room."""

    @abstractmethod
    def start(self, code: Path) -> None:
        """Start the worker by the code below `code`. Raises NotLaunched, Interrupted, OSError."""

    @abstractmethod
    def state(self) -> str:
        """starting, alive, ended or gone, as job.follow has it; a job that waits for its turn is starting.

        Raises OSError.
        """

    @abstractmethod
    def cancel(self, why: str, grace_s: float) -> None:
        """Ask for the worker's end. May be called at every look, until it has come."""

    @abstractmethod
    def end(self) -> None:
        """End what is left: the launcher is gone, or does not do as it was told."""

    def failure(self) -> Failure | None:
        """Why the place itself has ended the worker; None where it did not, or cannot tell."""
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of what helped to start and to watch it; the worker is not touched."""
