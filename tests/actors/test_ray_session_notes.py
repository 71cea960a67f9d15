"""Whose Ray session a note in the project names, and what a start may remove."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from potato_ray.actors.embedded import EmbeddedRay
from potato_ray.job import processes
from potato_ray.job.folder import write_json


@pytest.fixture
def session() -> Iterator[Path]:
    """A folder that looks like one of Ray's sessions."""
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def note_of(server: subprocess.Popen[bytes], session: Path, state_dir: Path) -> None:
    process = processes.identify(server.pid)
    assert process is not None
    write_json(state_dir / "ray.json", {**asdict(process), "folder": str(session)})


def test_a_start_sweeps_what_a_dead_server_left_and_nothing_of_a_living_one(
    session: Path, tmp_path: Path
) -> None:
    with subprocess.Popen(["sleep", "60"]) as server:
        note_of(server, session, tmp_path)
        EmbeddedRay(tmp_path, "a-copy")._sweep()
        assert session.exists()
        server.send_signal(signal.SIGKILL)
    EmbeddedRay(tmp_path, "the-next")._sweep()
    assert not session.exists()
