"""bundle.tar.gz: the same bytes for the same bundle, with pictures as files, streamed."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tracemalloc
from pathlib import Path

import pytest

from potato_ray.shipping.bundle_archive import NAME, pack_bundle


def make_bundle(folder: Path, picture: Path | None = None) -> Path:
    (folder / "media" / "ab").mkdir(parents=True)
    (folder / "manifest.json").write_text("{}", "utf-8")
    (folder / "train.jsonl").write_text('{"instance_id": "é"}\n' * 1000, "utf-8")
    if picture is not None:
        (folder / "media" / "ab" / "é.png").symlink_to(picture)
    return folder


def test_the_archive_of_a_bundle_depends_on_names_and_contents_alone(tmp_path) -> None:
    first = pack_bundle(make_bundle(tmp_path / "one"), tmp_path / NAME)
    os.utime(tmp_path / "one" / "manifest.json", (1, 1))
    (tmp_path / "one" / "manifest.json").chmod(0o600)
    again = pack_bundle(tmp_path / "one", tmp_path / "again.tar.gz")
    other = pack_bundle(make_bundle(tmp_path / "two"), tmp_path / "other.tar.gz")
    assert first.sha256 == again.sha256 == other.sha256


def test_digest_and_size_are_those_of_the_file(tmp_path) -> None:
    packed = pack_bundle(make_bundle(tmp_path / "bundle"), tmp_path / NAME)
    data = (tmp_path / NAME).read_bytes()
    assert (packed.sha256, packed.n_bytes) == (hashlib.sha256(data).hexdigest(), len(data))
    assert packed.path == tmp_path / NAME


def test_a_picture_is_a_file_in_the_archive_and_no_link(tmp_path) -> None:
    picture = tmp_path / "picture.png"
    picture.write_bytes(b"\x89PNG")
    pack_bundle(make_bundle(tmp_path / "bundle", picture), tmp_path / NAME)
    with tarfile.open(tmp_path / NAME) as archive:
        assert [entry.name for entry in archive] == ["manifest.json", "media/ab/é.png", "train.jsonl"]
        assert all(entry.isfile() for entry in archive)
        file = archive.extractfile("media/ab/é.png")
        assert file is not None
        assert file.read() == b"\x89PNG"


def test_an_archive_that_cannot_be_packed_leaves_the_old_one_and_nothing_beside_it(tmp_path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    before = pack_bundle(bundle, tmp_path / NAME)
    (bundle / "media" / "gone.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        pack_bundle(bundle, tmp_path / NAME)
    assert hashlib.sha256((tmp_path / NAME).read_bytes()).hexdigest() == before.sha256
    assert {path.name for path in tmp_path.iterdir()} == {"bundle", NAME}


def test_a_pipe_among_the_files_is_refused_and_not_waited_for(tmp_path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    os.mkfifo(bundle / "pipe")
    with pytest.raises(OSError, match="is no file"):
        pack_bundle(bundle, tmp_path / NAME)


def test_a_large_bundle_is_packed_piece_by_piece(tmp_path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    with (bundle / "media" / "large.tif").open("wb") as file:
        file.truncate(64 * 2**20)
    tracemalloc.start()
    try:
        pack_bundle(bundle, tmp_path / NAME)
        assert tracemalloc.get_traced_memory()[1] < 4 * 2**20
    finally:
        tracemalloc.stop()
