"""Predictions on their way into a mirror."""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path

import pytest
from agent_jobs import LEASE, claimed, digest

from potato_ray.errors import Conflict
from potato_ray.mirror.mirror import Holder, Mirror
from potato_ray.mirror.refusals import Malformed, TooLarge
from potato_ray.mirror.upload import Upload

HOLDER = Holder(1, digest(LEASE))
LINES = b'{"instance_id": "a"}\n' * 100


@pytest.fixture
def mirror(tmp_path) -> Mirror:
    claimed(tmp_path / "run")
    return Mirror(tmp_path / "run")


def begin(mirror: Mirror, data: bytes = LINES, n_bytes: int | None = None) -> Upload:
    with mirror.held(HOLDER):
        return Upload(mirror, len(data) if n_bytes is None else n_bytes, sha256(data).hexdigest())


def parts(mirror: Mirror) -> list[Path]:
    return list(mirror.folder.path.rglob("*.part"))


def test_whole_predictions_are_put_in_their_place(mirror) -> None:
    upload = begin(mirror)
    for start in range(0, len(LINES), 500):
        upload.write(LINES[start : start + 500])
    assert not mirror.folder.predictions.exists()
    with mirror.held(HOLDER):
        upload.finish()
    upload.discard()
    assert mirror.folder.predictions.read_bytes() == LINES
    assert parts(mirror) == []


def test_an_agent_whose_bytes_come_is_not_silent(mirror) -> None:
    upload = begin(mirror)
    os.utime(mirror.folder.heartbeat, (0, 0))
    upload.write(LINES[:500])
    assert mirror.folder.heartbeat.stat().st_mtime > 0
    upload.discard()


def test_a_repeat_replaces_them(mirror) -> None:
    for data in (LINES, b"other\n"):
        upload = begin(mirror, data)
        upload.write(data)
        with mirror.held(HOLDER):
            upload.finish()
    assert mirror.folder.predictions.read_bytes() == b"other\n"


@pytest.mark.parametrize("came", [LINES[:-1], b"x" + LINES[1:]])
def test_torn_or_changed_predictions_are_refused_and_removed(mirror, came: bytes) -> None:
    upload = begin(mirror)
    upload.write(came)
    with mirror.held(HOLDER), pytest.raises(Malformed) as refused:
        upload.finish()
    assert refused.value.code == "digest_mismatch"
    upload.discard()
    assert (mirror.folder.predictions.exists(), parts(mirror)) == (False, [])


def test_more_bytes_than_announced_are_not_kept(mirror) -> None:
    upload = begin(mirror, n_bytes=10)
    upload.write(b"0123456789")
    with pytest.raises(TooLarge):
        upload.write(b"1")
    upload.discard()


def test_a_later_upload_ends_the_one_before(mirror) -> None:
    older = begin(mirror)
    older.write(LINES[:500])
    newer = begin(mirror)
    assert len(parts(mirror)) == 1
    with pytest.raises(Conflict) as refused:
        older.write(LINES[500:])
    assert refused.value.code == "upload_replaced"
    older.discard()
    newer.write(LINES)
    with mirror.held(HOLDER):
        newer.finish()
    assert mirror.folder.predictions.read_bytes() == LINES


def test_an_upload_of_an_earlier_attempt_never_gets_into_a_later_one(mirror) -> None:
    upload = begin(mirror)
    upload.write(LINES)
    claimed(mirror.folder.path, attempt=2, lease="f" * 32)
    with mirror.held(Holder(2, digest("f" * 32))), pytest.raises(Conflict):
        upload.finish()
    assert not mirror.folder.predictions.exists()
    upload.discard()
