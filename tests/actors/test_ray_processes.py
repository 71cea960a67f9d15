"""What a session has left is ended; what others look at its files with is not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from parts import missing

from potato_ray.actors.ray_processes import end_session, servers

Hold = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture(autouse=True)
def proc() -> None:
    if not Path("/proc/self/fd").exists():
        missing("this machine has no /proc")


@pytest.fixture
def hold() -> Iterator[Hold]:
    """Starts programs that have a file open and wait."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*command: str, file: Path) -> subprocess.Popen[bytes]:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as output:
            started.append(subprocess.Popen(command, stdout=output))
        return started[-1]

    yield start
    for each in started:
        each.kill()
        each.wait(10.0)


WAITING = (sys.executable, "-c", "import time; time.sleep(60)")


def test_a_process_of_the_session_is_ended(tmp_path: Path, hold: Hold) -> None:
    left = hold(*WAITING, file=tmp_path / "pr-1" / "logs" / "agent.out")
    end_session(tmp_path / "pr-1")
    assert left.wait(10.0) == -9


def test_a_process_of_another_session_is_left_alone(tmp_path: Path, hold: Hold) -> None:
    other = hold(*WAITING, file=tmp_path / "pr-12" / "agent.out")
    end_session(tmp_path / "pr-1")
    assert other.poll() is None


def test_a_program_that_shows_a_log_is_left_alone(tmp_path: Path, hold: Hold) -> None:
    pager = hold("sleep", "60", file=tmp_path / "pr-1" / "agent.out")
    end_session(tmp_path / "pr-1")
    assert pager.poll() is None


def test_this_process_is_left_alone(tmp_path: Path) -> None:
    with (tmp_path / "driver.log").open("w"):
        end_session(tmp_path)
    assert os.getpid()


def test_only_rays_servers_are_counted(tmp_path: Path, hold: Hold) -> None:
    hold(*WAITING, file=tmp_path / "out")
    assert servers() == ()
