"""The worker's code as an archive that goes by its digest."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from potato_ray.shipping import code_archive as subject
from potato_ray.shipping.code_archive import code_archive, find_code


@pytest.fixture(autouse=True)
def nothing_was_made_before() -> None:
    subject._made.cache_clear()


def test_the_archive_goes_by_its_digest(tmp_path) -> None:
    packed = code_archive(tmp_path)
    data = packed.path.read_bytes()
    assert packed.path == tmp_path / "code" / f"{packed.sha256}.tar.gz"
    assert (hashlib.sha256(data).hexdigest(), len(data)) == (packed.sha256, packed.n_bytes)


def test_two_processes_make_the_same_archive(tmp_path) -> None:
    here = code_archive(tmp_path / "here")
    subject._made.cache_clear()
    assert code_archive(tmp_path / "there").sha256 == here.sha256


def test_it_holds_the_package_the_job_and_the_trainers_and_nothing_else(tmp_path) -> None:
    with tarfile.open(code_archive(tmp_path).path) as archive:
        names = archive.getnames()
    assert {name.rsplit("/", 1)[0] for name in names} == {
        "potato_ray",
        "potato_ray/job",
        "potato_ray/trainers",
    }
    assert {"potato_ray/__init__.py", "potato_ray/job/start.py", "potato_ray/trainers/base.py"} <= set(names)
    assert [name for name in names if name.startswith("potato_ray/") and name.count("/") == 1] == [
        "potato_ray/__init__.py"
    ]


def test_a_launcher_starts_from_the_unpacked_archive(tmp_path) -> None:
    with tarfile.open(code_archive(tmp_path).path) as archive:
        archive.extractall(tmp_path / "code-there", filter="data")
    script = tmp_path / "code-there" / "potato_ray" / "job" / "start.py"
    command = [sys.executable, "-S", "-E", str(script), "launcher", str(tmp_path / "no-job")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    assert "ModuleNotFoundError" not in done.stderr


def test_an_archive_is_found_by_its_digest_alone(tmp_path) -> None:
    packed = code_archive(tmp_path)
    assert find_code(tmp_path, packed.sha256) == packed.path
    assert find_code(tmp_path, "0" * 64) is None
    assert find_code(tmp_path, "../" + packed.sha256) is None


def test_the_archive_of_an_earlier_version_is_found_as_long_as_it_is_kept(tmp_path) -> None:
    code_archive(tmp_path)
    older = tmp_path / "code" / f"{'a' * 64}.tar.gz"
    older.write_bytes(b"")
    assert find_code(tmp_path, "a" * 64) == older


def test_one_that_was_removed_is_made_again(tmp_path) -> None:
    packed = code_archive(tmp_path)
    packed.path.unlink()
    assert code_archive(tmp_path) == packed
    assert packed.path.is_file()


def test_only_some_archives_are_kept(tmp_path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    for number in range(9):
        Path(folder, f"{number:064x}.tar.gz").write_bytes(b"")
    packed = code_archive(tmp_path)
    left = list(folder.iterdir())
    assert len(left) == subject.KEPT
    assert packed.path in left
