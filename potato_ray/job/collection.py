"""How the garbage collector looks at a process of ours that reads many rows.

Python's collector walks through everything that lives, again and again while rows are read: the
thousands of objects of imported libraries, and rows that refer to nothing but texts and numbers. On
20,000 items that is a sixth of the time of a build, a fit or a prediction.
"""

from __future__ import annotations

import gc

COLLECT_AFTER = 50_000
"""New objects before the collector looks at them; Python's own number is 700, or 2,000 from 3.13 on."""

_passed_over: list[bool] = []
"""Python could tell as well, by counting all that is passed over."""


def pass_over_what_is_loaded() -> None:
    """Never look again at what lives by now. Call it once all is imported; a second call does nothing."""
    if not _passed_over:  # or it would keep what has become garbage since
        _passed_over.append(True)
        gc.collect()
        gc.freeze()


def collect_seldom() -> None:
    """Look at new objects less often: where they are rows, and hold no large memory in circles."""
    gc.set_threshold(COLLECT_AFTER, 10, 10)
