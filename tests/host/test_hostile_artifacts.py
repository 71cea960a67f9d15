"""A host that sends what it must not: nothing is written outside of the artifacts, no wait is endless."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from potato_ray.backends import artifact_copy
from potato_ray.backends.artifact_copy import PARTS, ArtifactCopy, CopyFailed
from potato_ray.errors import Cancelled
from potato_ray.ssh.failures import SshTimeout


class Sent:
    """A stream of what was sent, in pieces; then the end, or what `then` raises."""

    def __init__(self, data: bytes, piece_bytes: int = 1 << 20, then: Exception | None = None) -> None:
        self.data = data
        self._piece_bytes = piece_bytes
        self._then = then
        self.timeouts: list[float] = []

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        self.timeouts.append(timeout_s)
        if not self.data and self._then is not None:
            raise self._then
        n_bytes = min(n_bytes, self._piece_bytes)
        piece, self.data = self.data[:n_bytes], self.data[n_bytes:]
        return piece


def sending(*files: tuple[str, bytes], **header) -> bytes:
    """What a host sends that has these files."""
    announced = [{"path": path, "bytes": len(body), "offset": 0} for path, body in files]
    line = json.dumps({"artifacts": {"files": announced, **header}}).encode() + b"\n"
    return line + b"".join(body + hashlib.sha256(body).hexdigest().encode() + b"\n" for _, body in files)


def refused(folder: Path, data: bytes) -> CopyFailed:
    """The error of a copy, which has written nothing that stays."""
    with pytest.raises(CopyFailed) as failed:
        ArtifactCopy(folder / "run" / "artifacts", "gpubox", 1).receive(Sent(data))
    written = {path for path in folder.rglob("*") if path.is_file() and PARTS not in path.parts}
    assert written == set()
    return failed.value


@pytest.mark.parametrize(
    "path",
    [
        "/tmp/evil",
        "../evil",
        "a/../../evil",
        "..",
        "",
        ".",
        "a//b",
        "./a",
        "a/",
        "a\0b",
        "a\nb",
        "a" * 300,
        "\udcff",
        f"{PARTS}/x",
        PARTS,
        "predictions.jsonl",
        None,
        7,
    ],
)
def test_a_name_that_is_no_plain_path_is_refused(tmp_path, path) -> None:
    line = {"artifacts": {"files": [{"path": path, "bytes": 1, "offset": 0}]}}
    data = json.dumps(line).encode() + b"\nx" + hashlib.sha256(b"x").hexdigest().encode() + b"\n"
    assert refused(tmp_path, data).code == "copy_refused"


@pytest.mark.parametrize(
    "more",
    [
        {"bytes": -1},
        {"bytes": 1.5},
        {"bytes": True},
        {"bytes": "1"},
        {"bytes": 2**20 + 1},
        {"bytes": 1 << 70},
        {"offset": -1},
        {"offset": 2},
        {"offset": None},
    ],
)
def test_a_size_that_cannot_be_is_refused(tmp_path, more) -> None:
    line = {"artifacts": {"files": [{"path": "a", "bytes": 1, "offset": 0, **more}]}}
    assert refused(tmp_path, json.dumps(line).encode() + b"\nx").code == "copy_refused"


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a")])
def test_files_in_each_others_way_are_refused(tmp_path, paths) -> None:
    assert refused(tmp_path, sending(*((path, b"x") for path in paths))).code == "copy_refused"


@pytest.mark.parametrize(
    "line",
    [
        b"Welcome to gpubox!\n",
        b"[]\n",
        b"{}\n",
        b'{"artifacts": 1}\n',
        b'{"artifacts": {}}\n',
        b"[" * 99999 + b"\n",
    ],
)
def test_a_list_that_is_none_is_refused(tmp_path, line) -> None:
    assert refused(tmp_path, line).code == "copy_refused"


def test_an_endless_list_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(artifact_copy, "_MOST_LIST_BYTES", 1000)
    assert "a line without an end" in refused(tmp_path, b"x" * 10_000_000).message


def test_a_list_of_too_many_files_is_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("potato_ray.backends.artifact_list.MOST_FILES", 3)
    assert "more than 3 files" in refused(tmp_path, sending(*((f"f{n}", b"") for n in range(4)))).message


def test_going_on_behind_what_is_here_is_refused(tmp_path) -> None:
    line = {"artifacts": {"files": [{"path": "a", "bytes": 9, "offset": 5}]}}
    assert "behind what is here" in refused(tmp_path, json.dumps(line).encode() + b"\n").message


@pytest.mark.parametrize("digest", [b"0" * 64 + b"\n", b"no digest\n", b"\n", b"A" * 64 + b"\n"])
def test_a_file_with_another_digest_never_gets_its_name(tmp_path, digest) -> None:
    line = sending(("a", b"weights")).split(b"\n")[0] + b"\n"
    assert refused(tmp_path, line + b"weights" + digest).code in ("copy_damaged", "copy_refused")


@pytest.mark.parametrize("way", ["sub", "sub/deeper"])
def test_a_way_through_a_link_is_refused(tmp_path, way) -> None:
    artifacts = tmp_path / "artifacts"
    (artifacts / way).parent.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (artifacts / way).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CopyFailed, match="no folder"):
        ArtifactCopy(artifacts, "gpubox", 1).receive(Sent(sending((f"{way}/evil", b"x"))))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_a_files_place_is_replaced_and_not_followed(tmp_path) -> None:
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "artifacts" / "model").symlink_to(tmp_path / "precious")
    ArtifactCopy(tmp_path / "artifacts", "gpubox", 1).receive(Sent(sending(("model", b"weights"))))
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "artifacts" / "model").read_bytes() == b"weights"


def test_what_a_host_says_of_others_fits_into_messages(tmp_path) -> None:
    left = [{"path": "a\x1b[31m\n" + "x" * 999, "bytes": 5}, {"path": 7, "bytes": 5}, "noise"]
    skipped = [{"path": "b\r", "why": "\x07"}, None]
    copied = ArtifactCopy(tmp_path, "gpubox", 1).receive(Sent(sending(left=left, skipped=skipped)))
    [(path, _)] = copied.left
    assert path.isprintable()
    assert len(path) < 200
    assert copied.skipped == (("b\\r", "\\x07"),)


@pytest.mark.parametrize("silence", [TimeoutError(), SshTimeout("It sent nothing")])
def test_a_host_that_sends_nothing_more_is_given_up_in_these_words(tmp_path, silence) -> None:
    sent = Sent(sending(("model", b"x" * 1000))[:-500], then=silence)
    with pytest.raises(CopyFailed) as stalled:
        ArtifactCopy(tmp_path, "gpubox", 1).receive(sent)
    assert stalled.value.message == "The copy from gpubox sent nothing for 180 s"
    assert stalled.value.code == "copy_stalled"
    assert set(sent.timeouts) == {180.0}


@pytest.mark.parametrize("piece_bytes", [1, 7, 64])
def test_it_does_not_matter_in_which_pieces_it_comes(tmp_path, piece_bytes) -> None:
    files = (("a/b", b"one\n"), ("a/c", b""), ("d", os.urandom(300)))
    ArtifactCopy(tmp_path, "gpubox", 1).receive(Sent(sending(*files), piece_bytes))
    assert all((tmp_path / path).read_bytes() == body for path, body in files)


def test_an_error_of_the_host_comes_in_its_words(tmp_path) -> None:
    error = {"code": "bad_input", "message": "The request names no run.", "evidence": "", "next_step": "x"}
    failed = refused(tmp_path, json.dumps({"error": error}).encode() + b"\n")
    assert (failed.code, failed.next_step) == ("bad_input", "x")
    assert "The request names no run." in failed.message


def test_a_copy_ends_when_whoever_hears_of_it_wants_that(tmp_path) -> None:
    def stop(n_bytes: int, of_bytes: int) -> None:
        if n_bytes:
            raise Cancelled("The run was cancelled.")

    with pytest.raises(Cancelled):
        ArtifactCopy(tmp_path, "gpubox", 1, stop).receive(Sent(sending(("model", b"x" * 1000))))


def test_more_than_fits_on_the_disk_is_not_begun(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(artifact_copy.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    failed = refused(tmp_path, sending(("model", b"x" * 1000)))
    assert failed.code == "disk_full"
