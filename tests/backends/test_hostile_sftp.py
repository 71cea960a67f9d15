"""Files from a host that means ill, or whose SFTP is of another make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_sftp import FILE, FOLDER, LINK, FakeConnection, FakeSftp, entry
from left_files import left_by

from potato_ray.backends import host_files
from potato_ray.backends.artifact_copy import CopyFailed
from potato_ray.backends.host_files import HostFiles
from potato_ray.backends.sftp_reading import AHEAD, BLOCK_BYTES, read_ahead

BODY = bytes(range(256)) * 700 + b"the end"


def read(sftp: Any, begin: int = 0, end: int = len(BODY)) -> bytes:
    return b"".join(read_ahead(sftp, b"1", begin, end))


def files_of(tmp_path: Path, sftp: FakeSftp) -> HostFiles:
    left = left_by("r", tmp_path / "run", Path("/home/ada/jobs"))
    return HostFiles(left, FakeConnection(sftp).login)


@pytest.mark.parametrize("most", [1, 1000, BLOCK_BYTES - 1, BLOCK_BYTES])
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_file_is_put_together_whatever_answers_come_first_and_however_short(
    most: int, newest_first: bool
) -> None:
    body = BODY[:3000] if most == 1 else BODY
    sftp = FakeSftp(body=body, most=most, newest_first=newest_first)
    assert read(sftp, 0, len(body)) == body


@pytest.mark.parametrize(("begin", "end"), [(0, 0), (5, 5), (1, 2), (BLOCK_BYTES, len(BODY)), (100, 70_000)])
def test_any_part_of_a_file_can_be_read(begin: int, end: int) -> None:
    assert read(FakeSftp(body=BODY), begin, end) == BODY[begin:end]


def test_so_many_requests_are_under_way_and_no_more() -> None:
    sftp = FakeSftp(body=bytes((AHEAD + 50) * BLOCK_BYTES))
    assert len(read(sftp, 0, (AHEAD + 50) * BLOCK_BYTES)) == (AHEAD + 50) * BLOCK_BYTES
    assert sftp.most_under_way == AHEAD


def test_names_that_lead_elsewhere_are_not_listed(tmp_path: Path) -> None:
    bad = ["../x", "/etc/passwd", "", "a/../../x", "line\nbreak", "nul\0", "x" * 300, "./x", "a//b"]
    there = [*(entry(name) for name in bad), entry("link", LINK), entry("good.bin", FILE, 7)]
    assert [each.path for each in files_of(tmp_path, FakeSftp(lambda folder: there)).listing()] == [
        "good.bin"
    ]


def test_a_folder_in_a_folder_without_end_is_not_followed_for_ever(tmp_path: Path) -> None:
    sftp = FakeSftp(lambda folder: [entry("f"), entry("d", FOLDER)])
    assert len(files_of(tmp_path, sftp).listing()) == 32


def test_a_list_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_files, "MOST_FILES", 50)
    many = [entry(f"{number:03}") for number in range(60)]
    assert len(files_of(tmp_path, FakeSftp(lambda folder: many)).listing()) == 50
    monkeypatch.setattr(host_files, "MOST_ENTRIES", 1000)
    folders = [entry(f"d{number}", FOLDER) for number in range(10)]
    assert files_of(tmp_path, FakeSftp(lambda folder: folders)).listing() == []


def test_a_name_that_is_no_text_is_told_and_ends_the_login(tmp_path: Path) -> None:
    def listed(folder: str) -> list[Any]:
        raise UnicodeDecodeError("utf-8", b"caf\xe9", 3, 4, "unexpected end of data")

    sftp = FakeSftp(listed)
    with pytest.raises(CopyFailed) as failure:
        files_of(tmp_path, sftp).listing()
    assert failure.value.code == "copy_broke_off"
    assert "unexpected end of data" in failure.value.evidence
    assert sftp.closed


def test_a_file_that_has_fewer_bytes_than_it_says_is_not_taken(tmp_path: Path) -> None:
    files = files_of(tmp_path, FakeSftp(body=BODY, said_size=len(BODY) + 1))
    with pytest.raises(CopyFailed) as failure:
        files.fetch("model.bin")
    assert failure.value.code == "copy_broke_off"
    assert not (tmp_path / "run" / "artifacts" / "model.bin").exists()


def test_a_file_that_is_a_folder_here_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run" / "artifacts" / "model.bin").mkdir(parents=True)
    with pytest.raises(CopyFailed, match="is a folder here") as failure:
        files_of(tmp_path, FakeSftp(body=BODY)).fetch("model.bin")
    assert failure.value.code == "copy_refused"
