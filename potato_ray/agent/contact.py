"""What an agent asks of its server, in the terms of its jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Protocol

from potato_ray.agent.code_store import CodeInUse
from potato_ray.agent.held_job import HeldJob

Told = Callable[[int, int], None]
"""Is told how many bytes of how many have moved."""


class Contact(Protocol):
    """One line to the server, for one thread at a time. Every method raises AgentError."""

    def let_go(self) -> None:
        """End the request that is under way in another thread; this line is not used again."""
        ...

    def claim(self, lease: str, wait_s: float) -> Any:
        """Ask for a job; None when there was none within `wait_s` seconds."""
        ...

    def code(self, held: HeldJob) -> CodeInUse:
        """The job's code, not to be removed until it is released; fetched when it is not there yet."""
        ...

    def bundle(self, held: HeldJob, told: Told) -> None:
        """Fetch the bundle to `held.archive`, and unpack it to the folder's bundle/, whole or not at all."""
        ...

    def progress(self, held: HeldJob, body: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def predictions(self, held: HeldJob, path: Path, told: Told) -> None: ...

    def result(self, held: HeldJob, body: Mapping[str, Any]) -> None: ...
