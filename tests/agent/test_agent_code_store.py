"""The code that jobs bring along: fetched once, checked, shared, and removed when nobody needs it."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import threading

import pytest

from potato_ray.agent.code_store import KEPT, CodeStore
from potato_ray.agent.errors import AgentError, ArchiveRefused, DownloadFailed, Stopped
from potato_ray.agent.file_lock import FileLock

FILES = {"potato_ray/__init__.py": b"", "potato_ray/job/start.py": b"print('started')"}


def pack(files=FILES, version=0):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in {**files, "potato_ray/version": str(version).encode()}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


class Shelf:
    """What there is to fetch: `use` asks a store for an archive, `fetched` are those that were asked for."""

    def __init__(self, folder):
        self.store = CodeStore(folder / "code")
        self.fetched = []

    def use(self, archive, sha256=None, **options):
        digest = sha256 or hashlib.sha256(archive).hexdigest()

        def fetch(target):
            self.fetched.append(digest)
            target.write_bytes(archive)

        return self.store.use(digest, fetch, **options)

    @property
    def versions(self):
        return {path.name for path in self.store.folder.iterdir() if len(path.name) == 64}


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path)


def test_code_is_fetched_once(shelf):
    archive = pack()
    with shelf.use(archive) as code, shelf.use(archive) as again:
        assert code.root == again.root
        assert (code.root / "potato_ray" / "job" / "start.py").read_bytes() == FILES[
            "potato_ray/job/start.py"
        ]
    assert len(shelf.fetched) == 1
    assert [path.name for path in shelf.store.folder.glob(".*")] == [".lock"]
    assert shelf.store.folder.stat().st_mode & 0o777 == 0o700


def test_starts_at_the_same_time_fetch_it_once(shelf):
    archive = pack()
    roots = []

    def start():
        with shelf.use(archive) as code:
            roots.append(code.root)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20.0)
    assert len(roots) == 8
    assert len(shelf.fetched) == 1


def test_damaged_code_is_refused_and_leaves_nothing(shelf):
    with pytest.raises(ArchiveRefused) as refused:
        shelf.use(b"damaged", hashlib.sha256(pack()).hexdigest())
    assert refused.value.code == "wrong_digest"
    assert [path.name for path in shelf.store.folder.iterdir()] == [".lock"]


@pytest.mark.parametrize("files", [{}, {"potato_ray/__init__.py": b""}, {"../evil": b""}])
def test_an_archive_that_is_no_code_is_refused(shelf, files):
    with pytest.raises(ArchiveRefused):
        shelf.use(pack(files))
    assert shelf.versions == set()


def test_a_fetch_that_fails_is_told_and_tried_again_the_next_time(shelf):
    archive = pack()

    def fail(target):
        raise DownloadFailed("It broke off.")

    with pytest.raises(DownloadFailed):
        shelf.store.use(hashlib.sha256(archive).hexdigest(), fail)
    shelf.use(archive).release()
    assert len(shelf.versions) == 1


@pytest.mark.parametrize("harm", ["remove", "shorten", "unseal"])
def test_code_of_which_files_are_gone_is_fetched_again(shelf, harm):
    archive = pack()
    with shelf.use(archive) as code:
        path = code.root / "potato_ray" / "job" / "start.py"
    if harm == "shorten":
        path.write_bytes(b"")
    else:
        (path if harm == "remove" else code.root / ".files.json").unlink()
    shelf.use(archive).release()
    assert path.read_bytes() == FILES["potato_ray/job/start.py"]
    assert len(shelf.fetched) == 2


def test_the_versions_used_last_are_kept(shelf):
    archives = [pack(version=number) for number in range(KEPT + 3)]
    for age, archive in enumerate(archives):
        with shelf.use(archive) as code:
            pass
        os.utime(code.root, (1e9 + age, 1e9 + age))
    digests = [hashlib.sha256(archive).hexdigest() for archive in archives]
    assert shelf.versions == set(digests[-KEPT - 1 :])
    assert {path.stem for path in shelf.store.folder.glob("*.lock")} == {".lock", *digests[-KEPT - 1 :]}


def test_a_version_that_a_job_uses_is_never_removed(shelf):
    with shelf.use(pack(version=0)) as code:
        os.utime(code.root, (1e9, 1e9))
        for number in range(1, KEPT + 3):
            shelf.use(pack(version=number)).release()
        assert code.root.name in shelf.versions
    shelf.use(pack(version=1)).release()
    assert len(shelf.versions) == KEPT + 1


def test_what_a_killed_agent_has_begun_is_cleared_up(shelf):
    shelf.use(pack(version=0)).release()
    for name in (".new-abc", ".unpack-abc"):
        (shelf.store.folder / name).mkdir()
    (shelf.store.folder / f".{'0' * 64}.part").touch()
    shelf.use(pack(version=1)).release()
    assert [path.name for path in shelf.store.folder.glob(".*")] == [".lock"]


def test_the_beginning_of_the_wanted_archive_is_kept(shelf):
    archive = pack()
    digest = hashlib.sha256(archive).hexdigest()
    shelf.store.folder.mkdir()
    part = shelf.store.folder / f".{digest}.part"
    part.touch()

    def fetch(target):
        assert part.exists()
        part.unlink()
        target.write_bytes(archive)

    shelf.store.use(digest, fetch).release()


def test_a_name_that_is_no_digest_is_never_a_path(shelf):
    with pytest.raises(ValueError, match="sha256"):
        shelf.use(pack(), "../../evil")


def test_a_stop_ends_the_wait_for_another_agent(shelf):
    shelf.store.folder.mkdir()
    stop = threading.Event()
    stop.set()
    with FileLock(shelf.store.folder / ".lock") as lock:
        lock.take(0.0)
        with pytest.raises(Stopped):
            shelf.use(pack(), stop=stop)


def test_an_agent_that_holds_a_lock_for_too_long_is_told_of(tmp_path):
    with FileLock(tmp_path / "lock") as first, FileLock(tmp_path / "lock") as second:
        first.take(0.0)
        with pytest.raises(AgentError) as held:
            second.take(0.0)
        assert held.value.code == "lock_held"
        first.release()
        second.take(0.0)
