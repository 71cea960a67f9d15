"""Fetching a file: cut, taken up again, checked, and refused when it is not the one that was announced."""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

import pytest
import wire_server as wire
from small_disk import SmallDisk
from wire_server import WireServer

from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.download import Source, download, part_of
from potato_ray.agent.errors import DiskFull, DownloadFailed, Refused, ServerUnreachable, Stopped
from potato_ray.agent.patience import Patience

CONTENT = os.urandom(1_000_000)
PATH = "/api/training/jobs/run-1/bundle"


class Job(NamedTuple):
    run_id: str = "run-1"
    attempt: int = 3
    lease: str = "planted-lease"


class Hurry(threading.Event):
    """A stop whose waits are over at once; `waits` are how long they would have been."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, timeout=None):
        self.waits.append(timeout)
        return self.is_set()


class Place:
    """Where a test downloads to."""

    def __init__(self, folder, file, n_bytes=None):
        self.target = folder / "bundle.tar.gz"
        self.source = Source(PATH, file.sha256, len(file.content) if n_bytes is None else n_bytes, "bundle")
        self.heard = []
        self.hurry = Hurry()

    @property
    def part(self):
        return part_of(self.source, self.target)

    def download(self, server, **options):
        connection = ServerConnection(server.url, "prt_token", timeout_s=5.0, connect_s=5.0, pace_s=0.5)
        try:
            download(
                connection,
                self.source,
                self.target,
                patience=Patience(self.hurry),
                job=Job(),
                on_bytes=lambda *sizes: self.heard.append(sizes),
                **options,
            )
        finally:
            connection.close()

    def failure(self, server, kind=DownloadFailed, **options):
        with pytest.raises(kind) as raised:
            self.download(server, **options)
        assert not self.target.exists()
        return raised.value


def test_a_file_comes_whole_and_is_private(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    with WireServer(file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT
    assert place.target.stat().st_mode & 0o777 == 0o600
    assert place.heard[-1] == (len(CONTENT), len(CONTENT))
    assert server.seen[0].headers["potato-ray-attempt"] == "3"
    assert list(tmp_path.iterdir()) == [place.target]


def test_each_byte_comes_once_however_often_the_line_is_cut(tmp_path):
    file = wire.File(CONTENT, 300_000, 1, 200_000)
    place = Place(tmp_path, file)
    with WireServer(file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT
    assert server.sent_bytes <= 1.1 * len(CONTENT)
    assert [seen.headers.get("range") for seen in server.seen] == [
        None,
        "bytes=300000-",
        "bytes=300001-",
        "bytes=500001-",
    ]
    assert server.seen[1].headers["if-range"] == f'"{file.sha256}"'


def test_a_file_that_breaks_off_five_times_is_given_up(tmp_path):
    file = wire.File(CONTENT, 1, 1, 1, 1, 1)
    place = Place(tmp_path, file)
    with WireServer(file) as server:
        failure = place.failure(server)
    assert failure.code == "broke_off"
    assert "broke off 5 times" in failure.message
    assert len(server.seen) == 5
    assert place.part.stat().st_size == 5


def test_the_next_agent_goes_on_where_the_last_one_was(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    place.part.write_bytes(CONTENT[:600_000])
    with WireServer(file) as server:
        place.download(server)
    assert server.seen[0].headers["range"] == "bytes=600000-"
    assert place.heard[0] == (600_000, len(CONTENT))
    assert place.target.read_bytes() == CONTENT


def test_what_is_there_to_its_end_is_not_fetched_again(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    place.part.write_bytes(CONTENT)
    with WireServer(file) as server:
        place.download(server)
        place.download(server)
    assert server.seen == []
    assert place.target.read_bytes() == CONTENT


def test_a_damaged_beginning_of_an_earlier_agent_is_fetched_anew(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    place.part.write_bytes(b"damaged")
    with WireServer(file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT


@pytest.mark.parametrize("n_bytes", [len(CONTENT) + 1, 2 * len(CONTENT)])
def test_a_beginning_that_is_longer_than_the_file_is_fetched_anew(tmp_path, n_bytes):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    place.part.write_bytes(bytes(n_bytes))
    with WireServer(file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT


def test_a_damaged_file_is_removed_and_said_to_be(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    file.content = bytes(len(CONTENT))
    with WireServer(file) as server:
        failure = place.failure(server)
    assert failure.code == "wrong_digest"
    assert list(tmp_path.iterdir()) == []


def test_a_server_without_ranges_begins_anew(tmp_path):
    file = wire.File(CONTENT, 400_000, ranges=False)
    place = Place(tmp_path, file)
    with WireServer(file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT
    assert len(server.seen) == 2


def test_a_file_that_has_changed_is_not_mixed_with_its_beginning(tmp_path):
    file = wire.File(CONTENT, 400_000)
    place = Place(tmp_path, file)
    with WireServer(file, wire.File(bytes(len(CONTENT)))) as server:
        failure = place.failure(server)
    assert failure.code == "another_file"
    assert place.part.stat().st_size == 400_000


def _ranged(content_range):
    return lambda handler: handler.give(206, CONTENT[400_000:], Content_Range=content_range)


@pytest.mark.parametrize("content_range", ["bytes 0-599999/1000000", "bytes 400000-999999/9", "nonsense", ""])
def test_a_part_of_another_place_is_refused(tmp_path, content_range):
    file = wire.File(CONTENT, 400_000)
    place = Place(tmp_path, file)
    with WireServer(file, _ranged(content_range)) as server:
        assert place.failure(server).code == "another_file"


def test_a_range_that_the_server_does_not_have_is_refused(tmp_path):
    file = wire.File(CONTENT, 400_000)
    place = Place(tmp_path, file)
    with WireServer(file, wire.problem(416, "unsatisfiable_range")) as server:
        assert place.failure(server).code == "another_file"


def test_a_file_longer_than_announced_is_refused_before_it_comes(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file, n_bytes=1000)
    with WireServer(file) as server:
        assert place.failure(server).code == "another_file"
    assert place.part.stat().st_size == 0


def test_a_file_without_an_end_is_cut_at_its_announced_size(tmp_path):
    place = Place(tmp_path, wire.File(CONTENT))
    with WireServer(wire.endless) as server:
        assert place.failure(server).code == "another_file"
    assert place.part.stat().st_size <= len(CONTENT)


def test_a_page_that_comes_instead_of_the_file_is_none_of_it(tmp_path):
    file = wire.File(CONTENT, 400_000)
    place = Place(tmp_path, file)
    with WireServer(file, wire.giving(200, b"<html>Log in</html>"), file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT
    assert server.seen[2].headers["range"] == "bytes=400000-"


def test_trouble_before_the_file_comes_does_not_count(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    # The first hang-up meets a kept connection, which is replaced at once.
    trouble = [*[wire.giving(502)] * 10, wire.hang_up, wire.hang_up, wire.hang]
    with WireServer(*trouble, file) as server:
        place.download(server)
    assert place.target.read_bytes() == CONTENT
    assert len(place.hurry.waits) == 12


def test_a_server_that_stays_away_is_given_up(tmp_path):
    place = Place(tmp_path, wire.File(CONTENT))
    with WireServer(wire.giving(502)) as server:
        place.failure(server, ServerUnreachable, give_up_after_s=0.0)


def test_a_file_that_stalls_is_asked_for_again(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)

    def stall(handler):
        handler.give(200, CONTENT[:400_000], len(CONTENT), ETag=file.etag)
        wire.hang(handler)

    with WireServer(stall, file) as server:
        place.download(server)
    assert server.seen[1].headers["range"] == "bytes=400000-"


def test_a_refusal_ends_it(tmp_path):
    place = Place(tmp_path, wire.File(CONTENT))
    with WireServer(wire.problem(409, "stale_attempt")) as server:
        assert place.failure(server, Refused).code == "stale_attempt"
    assert len(server.seen) == 1


def test_a_stop_keeps_what_has_come(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    stop = threading.Event()

    def stall(handler):
        handler.give(200, CONTENT[:400_000], len(CONTENT), ETag=file.etag)
        stop.set()
        wire.hang(handler)

    with WireServer(stall) as server:
        place.failure(server, Stopped, stop=stop)
    assert place.part.read_bytes() == CONTENT[: place.part.stat().st_size]


def test_an_empty_file_needs_no_request(tmp_path):
    place = Place(tmp_path, wire.File(b""))
    with WireServer(wire.hang) as server:
        place.download(server)
    assert place.target.read_bytes() == b""


def test_a_link_in_the_place_of_the_beginning_is_not_followed(tmp_path):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    place.part.symlink_to(victim)
    with WireServer(file) as server:
        place.failure(server, OSError)
    assert victim.read_bytes() == b"mine"


def test_a_disk_that_is_too_small_is_seen_before_anything_comes(tmp_path, monkeypatch):
    file = wire.File(CONTENT)
    place = Place(tmp_path, file)
    monkeypatch.setattr("potato_ray.agent.download.SPARE_BYTES", 1 << 60)
    with WireServer(file) as server:
        failure = place.failure(server, DiskFull)
    assert "1.0 MB are still to come" in failure.evidence
    assert server.seen == []


def test_a_disk_that_fills_up_meanwhile_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("potato_ray.agent.download.SPARE_BYTES", 0)
    folder = tmp_path / "disk"
    folder.mkdir()
    file = wire.File(os.urandom(3 << 20))
    place = Place(folder, file)
    with SmallDisk(folder, 4) as disk, WireServer(file) as server:
        monkeypatch.setattr("potato_ray.agent.download._Download._check_space", lambda download: disk.fill())
        failure = place.failure(server, DiskFull)
    assert failure.code == "disk_full"
