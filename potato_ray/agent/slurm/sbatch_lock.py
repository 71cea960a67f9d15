"""A lock that lasts as long as an sbatch, also where the agent that started it was killed meanwhile.

An sbatch goes on without its agent, and may try for minutes until SLURM takes the job.
"""

from __future__ import annotations

from pathlib import Path

from potato_ray.agent.errors import AgentError
from potato_ray.agent.file_lock import FileLock

LOCK = "sbatch.lock"
"""Its name in the job folder."""


def has_ended(folder: Path, wait_s: float) -> bool:
    """Whether no sbatch of a job folder is under way any more, after so many seconds at most."""
    lock = SbatchLock(folder)
    try:
        lock.take(wait_s)
    except OSError:
        return True  # the folder is gone, or takes no file: nothing can be known of it
    except AgentError:
        return False
    lock.release()
    return True


class SbatchLock(FileLock):
    """That of a job folder. An sbatch that keeps its `descriptors` holds it, too, until that ends."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LOCK)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """None where it is not held."""
        return () if self._descriptor is None else (self._descriptor,)
