"""Model files from a host to the run's folder: all of them, once, however often the way breaks."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from potato_ray.backends.artifact_copy import PARTS, ArtifactCopy, CopyFailed


@pytest.fixture
def artifacts(one_host) -> Path:
    """The artifacts of a run on the host."""
    folder = one_host.job / "artifacts"
    folder.mkdir(parents=True)
    return folder


def copy_of(host, target: Path, told=None, **request) -> tuple[ArtifactCopy, object]:
    """A copy that can begin, and the stream of the host that it asked."""
    copy = ArtifactCopy(target, "gpubox", 1, **({"told": told} if told else {}))
    talk = host.ask("send_artifacts", have=copy.have(), max_artifact_mb=1, **request)
    host.send_code(talk)
    return copy, talk


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_two_thousand_small_files_come_as_they_are(host, tmp_path) -> None:
    folder = host.job / "artifacts"
    for number in range(2000):
        path = folder / f"checkpoint-{number % 40}" / f"größe {number}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % number * (number % 90))
    copy, talk = copy_of(host, tmp_path / "here")
    assert copy.receive(talk).n_files == 2000
    assert contents(tmp_path / "here") == contents(folder)
    assert talk.ended() == 0


def test_progress_is_told_in_bytes_up_to_the_end(one_host, artifacts, tmp_path) -> None:
    (artifacts / "model.bin").write_bytes(os.urandom(900_000))
    (artifacts / "empty").touch()
    told = []
    copy, talk = copy_of(one_host, tmp_path / "here", lambda *bytes_of: told.append(bytes_of))
    assert copy.receive(talk).n_bytes == 900_000
    assert told == sorted(told)
    assert (told[0], told[-1]) == ((0, 900_000), (900_000, 900_000))


def test_a_copy_that_broke_off_goes_on_where_it_was(one_host, artifacts, tmp_path) -> None:
    content = os.urandom(1_000_000)
    (artifacts / "a.bin").write_bytes(content[:1000])
    (artifacts / "model.bin").write_bytes(content)
    copy, talk = copy_of(one_host, tmp_path / "here")
    with pytest.raises(CopyFailed, match="The copy from gpubox broke off") as broken:
        copy.receive(Breaking(talk, 400_000))
    assert broken.value.code == "copy_broke_off"
    again, talk = copy_of(one_host, tmp_path / "here")
    counting = Breaking(talk, 10**9)
    again.receive(counting)
    assert counting.n_bytes < 620_000
    assert contents(tmp_path / "here") == {"a.bin": content[:1000], "model.bin": content}


class Breaking:
    """A stream that ends after so many bytes."""

    def __init__(self, talk, after_bytes: int) -> None:
        self._talk = talk
        self._after_bytes = after_bytes
        self.n_bytes = 0

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        if self.n_bytes >= self._after_bytes:
            return b""
        piece = self._talk.read(n_bytes, timeout_s)
        self.n_bytes += len(piece)
        return piece


def test_what_is_here_already_does_not_come_again(one_host, artifacts, tmp_path) -> None:
    (artifacts / "sub").mkdir()
    (artifacts / "sub" / "model.bin").write_bytes(os.urandom(500_000))
    copy, talk = copy_of(one_host, tmp_path / "here")
    copy.receive(talk)
    again, talk = copy_of(one_host, tmp_path / "here")
    counting = Breaking(talk, 10**9)
    again.receive(counting)
    assert counting.n_bytes < 1000
    assert contents(tmp_path / "here") == contents(artifacts)


def test_a_beginning_that_does_not_fit_is_thrown_away_and_comes_anew(one_host, artifacts, tmp_path) -> None:
    (artifacts / "model.bin").write_bytes(os.urandom(500_000))
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "model.bin").write_bytes(bytes(1000))
    copy, talk = copy_of(one_host, tmp_path / "here")
    with pytest.raises(CopyFailed) as damaged:
        copy.receive(talk)
    assert damaged.value.code == "copy_damaged"
    copy, talk = copy_of(one_host, tmp_path / "here")
    copy.receive(talk)
    assert contents(tmp_path / "here") == contents(artifacts)


def test_files_above_the_limit_stay_and_are_named(one_host, artifacts, tmp_path) -> None:
    (artifacts / "large.bin").write_bytes(bytes(2**20 + 1))
    (artifacts / "fits.bin").write_bytes(bytes(2**20))
    copy, talk = copy_of(one_host, tmp_path / "here")
    copied = copy.receive(talk)
    assert copied.left == (("large.bin", 2**20 + 1),)
    assert list(contents(tmp_path / "here")) == ["fits.bin"]


def test_links_inside_count_as_files_and_all_else_is_named(one_host, artifacts, tmp_path) -> None:
    (artifacts / "blob").write_bytes(b"weights")
    (artifacts / "inside").symlink_to("blob")
    (artifacts / "outside").symlink_to("/etc/passwd")
    (artifacts / "folder").symlink_to("/etc")
    (artifacts / "nowhere").symlink_to("gone")
    os.mkfifo(artifacts / "pipe")
    (artifacts / "line\nend").touch()
    copy, talk = copy_of(one_host, tmp_path / "here")
    copied = copy.receive(talk)
    assert contents(tmp_path / "here") == {"blob": b"weights", "inside": b"weights"}
    assert not (tmp_path / "here" / "inside").is_symlink()
    assert {path for path, _ in copied.skipped} == {"outside", "folder", "nowhere", "pipe", "line\\nend"}


def test_a_name_in_bytes_that_are_no_text_is_skipped(one_host, artifacts, tmp_path) -> None:
    Path(os.fsdecode(os.fsencode(artifacts) + b"/bad\xff")).touch()
    (artifacts / "good").touch()
    copy, talk = copy_of(one_host, tmp_path / "here")
    assert [path for path, _ in copy.receive(talk).skipped] == ["bad\\udcff"]
    assert list(contents(tmp_path / "here")) == ["good"]


def test_predictions_are_not_sent_a_second_time(one_host, artifacts, tmp_path) -> None:
    (artifacts / "predictions.jsonl").write_text("{}\n")
    copy, talk = copy_of(one_host, tmp_path / "here")
    assert copy.receive(talk).n_files == 0
    assert contents(tmp_path / "here") == {}


def test_a_run_without_model_files_copies_none(one_host, tmp_path) -> None:
    copy, talk = copy_of(one_host, tmp_path / "here")
    assert copy.receive(talk).n_files == 0


def test_a_file_that_shrinks_while_it_is_sent_breaks_the_copy_off(one_host, artifacts, tmp_path) -> None:
    first, second = artifacts / "a.bin", artifacts / "b.bin"
    for path in (first, second):
        path.write_bytes(os.urandom(900_000))

    def shrink(n_bytes: int, of_bytes: int) -> None:
        if n_bytes < 100:
            os.truncate(second, 10)

    copy, talk = copy_of(one_host, tmp_path / "here", shrink)
    with pytest.raises(CopyFailed):
        copy.receive(talk)
    assert (tmp_path / "here" / "a.bin").read_bytes() == first.read_bytes()
    assert not (tmp_path / "here" / "b.bin").exists()


def test_no_part_is_left_of_a_copy_that_came_to_its_end(one_host, artifacts, tmp_path) -> None:
    (artifacts / ("n" * 250)).write_bytes(b"long")
    copy, talk = copy_of(one_host, tmp_path / "here")
    copy.receive(talk)
    assert not (tmp_path / "here" / PARTS).exists()
    assert contents(tmp_path / "here") == {"n" * 250: b"long"}


def test_a_limit_of_nothing_is_a_limit(one_host, artifacts) -> None:
    (artifacts / "model.bin").write_bytes(b"x")
    told = one_host.request("send_artifacts", have={}, max_artifact_mb=0)["artifacts"]
    assert (told["files"], told["left"]) == ([], [{"path": "model.bin", "bytes": 1}])
