"""A wall clock that tests set forwards and back, for the Python processes that they start.

What only ever grows, the monotonic clock, stays as it is, as when somebody sets the time. So does the time
that the kernel gives to files.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

HOUR_S = 3600.0
SHIFTED = Path(__file__).parent / "shifted_clock"


class JumpingClock:
    """Calling it tells what a process with its `environment` takes for the time, in epoch seconds."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self.hours = 0.0
        self.jump(0.0)

    def __call__(self) -> float:
        return time.time() + self.hours * HOUR_S

    @property
    def environment(self) -> Mapping[str, str]:
        """For a process, which hands it on to all that it starts."""
        path = os.pathsep.join(filter(None, [str(SHIFTED), os.environ.get("PYTHONPATH")]))
        # Launchers and workers get variables of the locale, and few others.
        return {"PYTHONPATH": path, "LC_POTATO_RAY_CLOCK": str(self._file)}

    def jump(self, hours: float) -> None:
        """From now on the clock is so many hours ahead of the true time, or below 0 behind it."""
        aside = self._file.with_suffix(".new")
        aside.write_text(str(hours * HOUR_S))
        aside.replace(self._file)
        self.hours = hours
