"""How the garbage collector looks at a process of ours that reads many rows.

Python's collector walks through everything that lives, again and again while rows are read: the
thousands of objects of imported libraries, and rows that refer to nothing but texts and numbers. On
20,000 items that is a sixth of the time of a build, a fit or a prediction.
"""

from __future__ import annotations

import gc

COLLECT_AFTER = 50_000
"""New objects before the collector looks at them; Python's own number is 700."""


def pass_over_what_is_loaded() -> None:
    """Never look at what lives by now, and at new objects less often. Call it once all is imported."""
    if gc.get_threshold()[0] == COLLECT_AFTER:
        return  # a second call would keep what has become garbage since
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 10, 10)
