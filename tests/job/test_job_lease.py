"""The lease of a job folder is renewed beside whatever else is done."""

from __future__ import annotations

import threading
from pathlib import Path

from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import Follower
from potato_ray.job.lease_keeper import LeaseKeeper


class Failing(Follower):
    """A follower whose renewals fail; `enough` after ten of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(JobFolder(path))
        self.tries = 0
        self.enough = threading.Event()

    def renew_lease(self) -> None:
        self.tries += 1
        if self.tries >= 10:
            self.enough.set()
        super().renew_lease()


def test_a_lease_that_cannot_be_renewed_is_tried_again_and_said_once(tmp_path: Path) -> None:
    said: list[OSError] = []
    follower = Failing(tmp_path / "absent")
    with LeaseKeeper(follower, every_s=0.01, trouble=said.append):
        assert follower.enough.wait(10.0)
    assert [type(failure) for failure in said] == [FileNotFoundError]


def test_failures_that_nobody_asks_for_are_passed_over(tmp_path: Path) -> None:
    follower = Failing(tmp_path / "absent")
    with LeaseKeeper(follower, every_s=0.01):
        assert follower.enough.wait(10.0)


def test_the_lease_is_renewed_at_once_and_by_nobody_afterwards(tmp_path: Path) -> None:
    folder = JobFolder(tmp_path)
    with LeaseKeeper(Follower(folder), every_s=60.0) as keeper:
        while not folder.lease.exists():
            assert keeper._thread.is_alive()
        keeper._stop.set()
    assert not keeper._thread.is_alive()
