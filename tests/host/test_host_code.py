"""Our code on a host: copied where it is missing, once, whole, and no more of it than is of use."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile

import pytest

from potato_ray.agent.code_store import KEPT
from potato_ray.shipping.host_archive import host_archive


def test_the_code_is_copied_once_and_then_found(host) -> None:
    first = host.ask("take_up")
    assert host.send_code(first) == "copied"
    assert host.send_code(host.ask("take_up")) == "found"
    root = host.remote_dir / "code" / host.archive.sha256
    assert (root / "potato_ray" / "host" / "start.py").is_file()


def test_of_three_starts_at_once_one_copies_the_code(one_host) -> None:
    talks = [one_host.ask("take_up") for _ in range(3)]
    said = sorted(one_host.send_code(talk) for talk in sorted(talks, key=_speaks_later))
    assert said == ["copied", "found", "found"]
    left = {path.name for path in (one_host.remote_dir / "code").iterdir()}
    assert left == {".lock", one_host.archive.sha256}


def _speaks_later(talk) -> bool:
    """Whether another one is ahead of it, and holds the lock."""
    try:
        talk.early = talk.read(1, 2.0)
    except TimeoutError:
        return True
    return False


def test_damaged_code_is_refused_and_leaves_nothing(one_host) -> None:
    talk = one_host.ask("take_up")
    talk.line()
    data = one_host.archive.path.read_bytes()
    talk.send_line({"archive_bytes": len(data)})
    talk.send(data[:-100] + bytes(100))
    assert talk.line()["error"]["code"] == "wrong_digest"
    assert [path.name for path in (one_host.remote_dir / "code").iterdir()] == [".lock"]


def archive_of(*members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)))
    return made.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
    return made


BAD_ARCHIVES = {
    "above": archive_of(member("potato_ray/../../evil.py")),
    "root": archive_of(member("/tmp/evil.py")),
    "beside": archive_of(member("evil.py")),
    "link": archive_of(member("potato_ray/link.py", tarfile.SYMTYPE)),
    "pipe": archive_of(member("potato_ray/pipe.py", tarfile.FIFOTYPE)),
    "twice": archive_of(member("potato_ray/a.py"), member("potato_ray/a.py")),
    "no tar": gzip.compress(b"no tar" * 100),
    "no gzip": b"no gzip",
}


@pytest.mark.parametrize("kind", BAD_ARCHIVES)
def test_an_archive_with_anything_but_source_files_is_refused(one_host, kind) -> None:
    data = BAD_ARCHIVES[kind]
    talk = one_host.ask("take_up", code=hashlib.sha256(data).hexdigest())
    talk.line()
    talk.send_line({"archive_bytes": len(data)})
    talk.send(data)
    assert talk.line()["error"]["code"] == "bad_archive"
    assert [path.name for path in (one_host.remote_dir / "code").iterdir()] == [".lock"]


@pytest.mark.parametrize("size", [0, -1, "9", None, 10**12])
def test_a_size_that_is_none_is_refused(one_host, size) -> None:
    talk = one_host.ask("take_up")
    talk.line()
    talk.send_line({"archive_bytes": size})
    assert talk.line()["error"]["code"] == "bad_input"


def test_a_copy_that_breaks_off_leaves_nothing_and_frees_the_lock(one_host) -> None:
    talk = one_host.ask("take_up")
    talk.line()
    talk.send_line({"archive_bytes": one_host.archive.n_bytes})
    talk.send(one_host.archive.path.read_bytes()[:1000])
    talk.process.kill()
    talk.ended()
    assert one_host.send_code(one_host.ask("take_up")) == "copied"


def test_code_that_lost_a_file_is_copied_again(one_host) -> None:
    one_host.send_code(one_host.ask("take_up"))
    (one_host.remote_dir / "code" / one_host.archive.sha256 / "potato_ray" / "job" / "start.py").unlink()
    assert one_host.send_code(one_host.ask("take_up")) == "copied"


def test_old_versions_go_when_a_run_starts_but_for_the_last_used(one_host) -> None:
    folder = one_host.remote_dir / "code"
    for number in range(6):
        version = folder / f"{number:064x}"
        version.mkdir(parents=True)
        os.utime(version, (number, number))
    one_host.run().line_with("ready")
    versions = sorted(path.name for path in folder.iterdir() if len(path.name) == 64)
    kept = [f"{number:064x}" for number in range(6 - KEPT, 6)]
    assert versions == sorted([*kept, one_host.archive.sha256])


def test_the_archive_goes_by_its_digest_and_holds_what_a_host_needs(tmp_path) -> None:
    packed = host_archive(tmp_path)
    assert hashlib.sha256(packed.path.read_bytes()).hexdigest() == packed.sha256
    with tarfile.open(packed.path) as archive:
        folders = {name.rsplit("/", 1)[0] for name in archive.getnames()}
    wanted = {"agent", "agent/slurm", "host", "job", "trainers"}
    assert folders == {"potato_ray", *(f"potato_ray/{each}" for each in wanted)}


def test_what_is_noted_of_the_files_is_what_the_agent_looks_for(one_host) -> None:
    from potato_ray.agent.code_store import CodeStore

    one_host.send_code(one_host.ask("take_up"))

    def fetch(archive):
        raise AssertionError("it is there")

    with CodeStore(one_host.remote_dir / "code").use(one_host.archive.sha256, fetch) as code:
        assert json.loads((code.root / ".files.json").read_text())["potato_ray/__init__.py"] > 0


def test_an_archive_that_was_removed_is_made_again(tmp_path) -> None:
    packed = host_archive(tmp_path)
    packed.path.unlink()
    assert host_archive(tmp_path) == packed
    assert packed.path.is_file()
