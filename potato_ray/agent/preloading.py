"""A worker that loads its trainer's libraries while the bundle of its job is still under way.

start ── spare worker of the job's own code ── bundle here ── take ─▶ it works on the job
                                                        └ or else the job is started as ever
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from potato_ray.job.folder import JobFolder
from potato_ray.job.spare import SpareKeeper

LISTENS_WITHIN_S = 5.0
"""For the first process of the spare; a machine that is slower starts the job as ever."""


class Preloading:
    """For one job. Nothing that goes wrong with it is a failure of the job's."""

    def __init__(self) -> None:
        self._keeper: SpareKeeper | None = None

    def start(self, spec: Mapping[str, Any], code: Path, python: str, workdir: Path) -> None:
        """Start the worker for a job with this spec, by the code below `code`; its log is in `workdir`."""
        limits = spec.get("limits") or {}
        try:
            self._keeper = SpareKeeper(
                workdir,
                [str(spec["trainer"])],
                python,
                limits.get("num_threads"),
                spec.get("env"),
                str(code / "potato_ray" / "job" / "start.py"),
            )
            self._keeper.ensure()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.close()  # what is wrong with the spec or the interpreter is said when the job is started

    def take(self, folder: JobFolder) -> bool:
        """Give it the job; False where there is none that fits."""
        return self._keeper is not None and self._keeper.take(folder, LISTENS_WITHIN_S) is not None

    def close(self) -> None:
        """Let go of it; one that has no job ends."""
        if self._keeper is not None:
            self._keeper.close()
            self._keeper = None
