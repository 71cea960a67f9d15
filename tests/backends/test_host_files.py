"""Model files that stayed on a host, through a real sshd: listed, fetched, removed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from left_files import FETCHABLE, FILES, MODEL, leave_files, left_by
from sshd import Sshd

from potato_ray.backends.artifact_copy import PARTS, CopyFailed
from potato_ray.backends.growing_file import GrowingFile
from potato_ray.backends.host_files import HostFile, HostFiles
from potato_ray.backends.left_on_host import LeftOnHost
from potato_ray.backends.remote_note import read_note
from potato_ray.errors import Cancelled, Conflict, NotFound, ProjectUnwritable
from potato_ray.host.artifacts import key_of
from potato_ray.ssh import SshFailed

RUN = "20260301T093000-1f2e3d"


@pytest.fixture(scope="module")
def host() -> Iterator[Sshd]:
    with Sshd() as sshd:
        yield sshd


class Place:
    """Both sides of one run's files."""

    def __init__(self, folder: Path) -> None:
        self.remote_dir = folder / "host dir"
        self.there = leave_files(RUN, folder / "run", self.remote_dir)
        self.left: LeftOnHost = left_by(RUN, folder / "run", self.remote_dir)
        self.part = self.left.home / PARTS / f"{key_of('model.bin')}.part"

    def have_part(self, body: bytes) -> None:
        """Something of model.bin has come before."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(body)


@pytest.fixture
def place(tmp_path: Path, host: Sshd, monkeypatch: pytest.MonkeyPatch) -> Place:
    host.use(monkeypatch)
    return Place(tmp_path)


@pytest.fixture
def files(place: Place) -> Iterator[HostFiles]:
    with HostFiles(place.left, stall_s=5.0) as opened:
        yield opened


def test_every_file_is_listed_with_its_size_but_the_predictions(files: HostFiles) -> None:
    assert files.listing() == [HostFile(path, len(FILES[path]), is_here=False) for path in FETCHABLE]


def test_every_listed_file_comes_home_as_it_is(files: HostFiles, place: Place) -> None:
    for path in FETCHABLE:
        assert files.fetch(path).read_bytes() == FILES[path]
    assert all(each.is_here for each in files.listing())
    assert not (place.left.home / PARTS).exists()


def test_a_list_and_two_files_cost_one_login(files: HostFiles, host: Sshd) -> None:
    before = host.log.count("Accepted publickey")
    files.listing()
    files.fetch("model_card.json")
    files.fetch("sub/empty.bin")
    assert host.log.count("Accepted publickey") == before + 1


def test_a_file_of_another_size_is_not_here(files: HostFiles, place: Place) -> None:
    place.left.home.mkdir(parents=True)
    (place.left.home / "model.bin").write_bytes(MODEL[:-1])
    assert not any(each.is_here for each in files.listing())
    assert files.fetch("model.bin").read_bytes() == MODEL


def test_links_special_files_and_names_that_are_no_paths_are_left_out(files: HostFiles, place: Place) -> None:
    (place.there / "out").symlink_to("/etc/passwd")
    (place.there / "inside").symlink_to("model_card.json")
    (place.there / "away").symlink_to("/etc")
    (place.there / "line\nbreak").write_text("x")
    (place.there / PARTS).mkdir()
    (place.there / PARTS / "x").write_text("x")
    os.mkfifo(place.there / "pipe")
    assert [each.path for each in files.listing()] == FETCHABLE


@pytest.mark.parametrize(
    "path",
    ["out", "inside", "away/passwd", "../secret", "sub/../../secret", "/etc/passwd", "", "sub", "sub/",
     "predictions.jsonl", f"{PARTS}/x", "none", "pipe", "nul\0"],
)  # fmt: skip
def test_nothing_else_can_be_fetched(files: HostFiles, place: Place, path: str) -> None:
    (place.there / "out").symlink_to("/etc/passwd")
    (place.there / "inside").symlink_to("model_card.json")
    (place.there / "away").symlink_to("/etc")
    (place.there.parent / "secret").write_text("secret")
    os.mkfifo(place.there / "pipe")
    with pytest.raises(NotFound) as refused:
        files.fetch(path)
    assert refused.value.code == "unknown_artifact"
    assert files.fetch("model_card.json").read_bytes() == b"{}"


def test_a_fetch_does_not_write_through_a_link_here(files: HostFiles, place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place.left.home.mkdir(parents=True)
    (place.left.home / "sub").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CopyFailed, match="leads through something that is no folder") as refused:
        files.fetch("sub/empty.bin")
    assert refused.value.code == "copy_refused"
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_fetch_goes_on_where_an_earlier_one_broke_off(files: HostFiles, place: Place) -> None:
    place.have_part(MODEL[:2_000_000])
    told: list[tuple[int, int]] = []
    files.fetch("model.bin", lambda here, of: told.append((here, of)))
    assert told[0] == (2_000_000, len(MODEL))
    assert told[-1] == (len(MODEL), len(MODEL))
    assert (place.left.home / "model.bin").read_bytes() == MODEL


@pytest.mark.parametrize("part", [b"x" * 2_000_000, MODEL + b"more", MODEL[:1_999_999] + b"!"])
def test_what_is_not_the_beginning_of_the_file_is_not_gone_on_with(
    files: HostFiles, place: Place, part: bytes
) -> None:
    place.have_part(part)
    told: list[int] = []
    files.fetch("model.bin", lambda here, of: told.append(here))
    assert told[0] == 0
    assert (place.left.home / "model.bin").read_bytes() == MODEL


def test_a_stopped_fetch_leaves_what_has_come_and_the_login_can_be_used_again(
    files: HostFiles, place: Place
) -> None:
    def stop_halfway(here: int, of: int) -> None:
        if here > of / 2:
            raise Cancelled("stopped")

    with pytest.raises(Cancelled):
        files.fetch("model.bin", stop_halfway)
    assert len(MODEL) / 2 < place.part.stat().st_size < len(MODEL)
    assert not (place.left.home / "model.bin").exists()
    assert files.fetch("model.bin").read_bytes() == MODEL


def test_one_process_at_a_time_fetches_a_file(files: HostFiles, place: Place) -> None:
    with GrowingFile(place.left.home, "model.bin"), pytest.raises(Conflict) as refused:
        files.fetch("model.bin")
    assert refused.value.code == "fetch_under_way"
    assert files.fetch("model.bin").read_bytes() == MODEL


def test_a_file_that_grows_meanwhile_is_not_taken(files: HostFiles, place: Place) -> None:
    def grow(here: int, of: int) -> None:
        if here == of:
            with (place.there / "model.bin").open("ab") as file:
                file.write(b"more")

    with pytest.raises(CopyFailed) as failure:
        files.fetch("model.bin", grow)
    assert failure.value.code == "copy_damaged"
    assert not (place.left.home / "model.bin").exists()


def test_a_file_that_becomes_shorter_meanwhile_breaks_the_fetch_off(files: HostFiles, place: Place) -> None:
    def shrink(here: int, of: int) -> None:
        os.truncate(place.there / "model.bin", 100)

    (place.there / "model.bin").write_bytes(MODEL * 8)
    with pytest.raises(CopyFailed) as failure:
        files.fetch("model.bin", shrink)
    assert failure.value.code == "copy_broke_off"


def test_a_host_that_falls_silent_is_given_up_and_the_next_fetch_goes_on(place: Place, host: Sshd) -> None:
    stopped: list[int] = []

    def silence(here: int, of: int) -> None:
        if here > of / 4 and not stopped:
            stopped.extend(host.processes)
            for pid in stopped:
                os.kill(pid, signal.SIGSTOP)

    (place.there / "model.bin").write_bytes(MODEL * 8)
    with HostFiles(place.left, stall_s=1.0) as files:
        try:
            with pytest.raises(CopyFailed) as failure:
                files.fetch("model.bin", silence)
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)
        assert failure.value.code == "copy_stalled"
        assert failure.value.message == "The copy from gpubox sent nothing for 1 s"
        told: list[int] = []
        assert files.fetch("model.bin", lambda here, of: told.append(here)).read_bytes() == MODEL * 8
        assert told[0] > len(MODEL) * 2


def test_a_link_that_is_cut_breaks_the_fetch_off_and_the_next_one_logs_in_again(
    files: HostFiles, place: Place, host: Sshd
) -> None:
    def cut(here: int, of: int) -> None:
        if here:
            host.end_sessions()

    (place.there / "model.bin").write_bytes(MODEL * 8)
    with pytest.raises(CopyFailed) as failure:
        files.fetch("model.bin", cut)
    assert failure.value.code == "copy_broke_off"
    assert files.fetch("model.bin").read_bytes() == MODEL * 8


def test_a_host_that_cannot_be_reached_is_told_in_sshs_words(files: HostFiles, host: Sshd) -> None:
    host.stop()
    try:
        with pytest.raises(SshFailed) as failure:
            files.listing()
    finally:
        host.start()
    assert failure.value.code == "ssh_failed"
    assert "Connection refused" in failure.value.evidence


def test_a_full_disk_is_told_before_anything_comes(
    files: HostFiles, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def usage(path: Any) -> Any:
        return type("Usage", (), {"free": 1000})

    monkeypatch.setattr("potato_ray.backends.growing_file.shutil.disk_usage", usage)
    with pytest.raises(ProjectUnwritable) as failure:
        files.fetch("model.bin")
    assert failure.value.code == "disk_full"


def test_after_a_removal_nothing_is_left_and_that_is_noted(files: HostFiles, place: Place) -> None:
    files.listing()
    (place.remote_dir / "runs" / "another.1").mkdir()
    files.remove()
    assert [path.name for path in (place.remote_dir / "runs").iterdir()] == ["another.1"]
    note = read_note(place.left.run_folder)
    assert note is not None
    assert note.files_removed
    with pytest.raises(NotFound) as gone:
        files.listing()
    assert gone.value.code == "remote_files_gone"
