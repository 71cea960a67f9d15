"""What libraries warn of while they fit, in the run's log, where whoever trains sees it."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import Iterator, Sequence

from potato_ray.trainers.base import Reporter

MOST = 10


@contextmanager
def told_once(reporter: Reporter) -> Iterator[None]:
    """Say each warning that comes in the `with` block once, MOST at most."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:  # they may say why it failed
            _tell(reporter, list(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught)))


def _tell(reporter: Reporter, messages: Sequence[str]) -> None:
    for message in messages[:MOST]:
        reporter.log(message, level="warning")
    if len(messages) > MOST:
        reporter.log(f"and {len(messages) - MOST} more warnings of the libraries.", level="warning")
