"""A worker that loads its trainer's libraries while the bundle of its job is still under way.

start ── spare worker of the job's own code ── bundle here ── take ─▶ it works on the job
                                                        └ or else the job is started as ever
"""

from __future__ import annotations

import threading
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
        self._starting: threading.Thread | None = None

    def start(self, spec: Mapping[str, Any], code: Path, python: str, workdir: Path) -> None:
        """Start the worker for a job with this spec, by the code below `code`; its log is in `workdir`."""
        try:
            limits = spec.get("limits") or {}
            # It is for this job alone: its processes are known by the job's mark from the beginning.
            mark = {"POTATO_RAY_JOB": f"{spec['run_id']}:{spec['attempt']}"}
            self._keeper = SpareKeeper(
                workdir,
                [str(spec["trainer"])],
                python,
                limits.get("num_threads"),
                {**(spec.get("env") or {}), **mark},
                str(code / "potato_ray" / "job" / "start.py"),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return  # what is wrong with the spec is said when the job is started
        # It takes as long as an interpreter takes to start; the bundle need not wait for that.
        self._starting = threading.Thread(
            target=self._start, args=(self._keeper,), name="preloading", daemon=True
        )
        self._starting.start()

    @staticmethod
    def _start(keeper: SpareKeeper) -> None:
        try:
            keeper.ensure()
        except (OSError, ValueError, TypeError):
            pass  # so is what is wrong with the interpreter

    def take(self, folder: JobFolder) -> bool:
        """Give it the job; False where there is none that fits."""
        if self._keeper is None or not self._has_begun():
            return False
        return self._keeper.take(folder, LISTENS_WITHIN_S) is not None

    def close(self) -> None:
        """Let go of it; one that has no job ends."""
        if self._keeper is not None and self._has_begun():
            self._keeper.close()
        # One whose start hangs ends with this process.
        self._keeper = None

    def _has_begun(self) -> bool:
        """Whether its start has come to an end, after a moment."""
        if self._starting is not None:
            self._starting.join(LISTENS_WITHIN_S)
        return self._starting is None or not self._starting.is_alive()
