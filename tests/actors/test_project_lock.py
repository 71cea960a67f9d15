"""One holder of a project at a time, whatever becomes of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from potato_ray import lock as locks
from potato_ray.errors import Conflict, ProjectUnwritable
from potato_ray.job.folder import read_json
from potato_ray.lock import ProjectLock, holder, holding


def test_a_second_holder_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "the first"), pytest.raises(Conflict, match="the first") as refused:
        ProjectLock(tmp_path / "state").acquire("the second")
    assert refused.value.code == "project_in_use"
    assert refused.value.next_step


def test_a_server_is_named_with_its_address(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "a server") as lock:
        lock.describe(purpose="a server", url="http://127.0.0.1:8000")
        with pytest.raises(Conflict) as refused:
            ProjectLock(tmp_path / "state").acquire("the second")
    assert "at http://127.0.0.1:8000" in refused.value.next_step


def test_a_released_project_can_be_taken_again(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "the first"):
        pass
    with holding(tmp_path / "state", "the second"):
        assert (read_json(tmp_path / "state" / "server.json") or {})["purpose"] == "the second"


def test_the_note_is_private_and_goes_with_the_lock(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "a test") as lock:
        assert stat.S_IMODE(lock.note.stat().st_mode) == 0o600
    assert not lock.note.exists()


def test_the_lock_ends_with_its_process(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from potato_ray.lock import ProjectLock\n"
        "ProjectLock(Path(sys.argv[1])).acquire('a process that is killed')\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "state")], timeout=30, check=False)
    with holding(tmp_path / "state", "the next"):
        pass


def test_a_look_at_who_holds_the_project_keeps_nobody_from_taking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path / "state", "one that is gone"):
        pass
    look = locks._taken(tmp_path / "state", os.O_RDONLY, fcntl.LOCK_SH)
    monkeypatch.setattr("time.sleep", lambda _: look.close())
    with holding(tmp_path / "state", "the next"):
        assert (holder(tmp_path / "state") or {})["purpose"] == "the next"


def test_releasing_twice_is_harmless(tmp_path: Path) -> None:
    lock = ProjectLock(tmp_path / "state")
    lock.acquire("a test")
    lock.release()
    lock.release()


def test_a_note_that_cannot_be_written_leaves_the_project_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("potato_ray.lock.write_private", full)
        with pytest.raises(ProjectUnwritable, match="No space left") as refused:
            ProjectLock(tmp_path / "state").acquire("the first")
    assert refused.value.code == "disk_full"
    with holding(tmp_path / "state", "the second"):
        pass


def test_a_lock_file_that_somebody_removed_still_holds(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "the first"):
        (tmp_path / "state" / "lock").unlink()
        with pytest.raises(Conflict, match="the first"):
            ProjectLock(tmp_path / "state").acquire("the second")
        assert (holder(tmp_path / "state") or {})["purpose"] == "the first"


def test_a_removed_folder_of_state_still_holds(tmp_path: Path) -> None:
    with holding(tmp_path / "state", "the first"):
        shutil.rmtree(tmp_path / "state")
        with pytest.raises(Conflict) as refused:
            ProjectLock(tmp_path / "state").acquire("the second")
    assert refused.value.code == "project_in_use"
