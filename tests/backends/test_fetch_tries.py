"""A fetch over a link that breaks off: it goes on as long as each try brings something."""

from __future__ import annotations

from typing import Any

import pytest

from potato_ray.backends.artifact_copy import CopyFailed
from potato_ray.backends.fetch_tries import RETRY_S, TRIES, fetch_at_last
from potato_ray.errors import NotFound
from potato_ray.ssh import SshFailed

BROKEN = CopyFailed("broke off", code="copy_broke_off")
SILENT = SshFailed("refused")


class Files:
    """Each fetch brings so many bytes in all, and meets what is in its place."""

    def __init__(self, *fetches: tuple[int, Exception | None]) -> None:
        self.fetches = list(fetches)

    def fetch(self, path: str, told: Any) -> None:
        here, failure = self.fetches.pop(0)
        if here:
            told(here, 100)
        if failure is not None:
            raise failure


def tried(files: Any) -> list[float]:
    waits: list[float] = []
    fetch_at_last(files, "model.bin", lambda here, of: None, waits.append)
    return waits


def test_a_link_that_brings_something_each_time_is_not_given_up() -> None:
    steps = [(n, BROKEN) for n in range(10, 10 + 4 * TRIES)]
    assert tried(Files(*steps, (100, None))) == [RETRY_S] * len(steps)


@pytest.mark.parametrize("failure", [BROKEN, SILENT])
def test_a_link_that_brings_nothing_is_given_up(failure: Exception) -> None:
    files = Files(*[(0, failure)] * (TRIES + 1))
    with pytest.raises(type(failure)):
        tried(files)
    assert len(files.fetches) == 1


@pytest.mark.parametrize("failure", [CopyFailed("no", code="copy_refused"), NotFound("no")])
def test_what_another_try_would_meet_as_well_is_told_at_once(failure: Exception) -> None:
    files = Files((10, failure), (100, None))
    with pytest.raises(type(failure)):
        tried(files)
    assert len(files.fetches) == 1
