"""Embeddings are computed once for each text, and a cache that cannot be used costs time alone."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from small_disk import SmallDisk

from potato_ray.trainers import embedding_cache
from potato_ray.trainers.embedding_cache import EmbeddingCache, cache_folder

ONE, TWO = np.array([1.0, 2.0], dtype=np.float32), np.array([3.0, 4.0], dtype=np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path) -> EmbeddingCache:
    return EmbeddingCache(folder, "model@1")


def file_of(cache: EmbeddingCache) -> Path:
    assert cache.path is not None
    return cache.path


def test_what_was_kept_is_known_and_nothing_else(cache: EmbeddingCache, folder: Path) -> None:
    cache.keep({"one": ONE, "two": TWO})
    known = EmbeddingCache(folder, "model@1").known(["one", "two", "three"])
    assert {text: vector.tolist() for text, vector in known.items()} == {"one": [1.0, 2.0], "two": [3.0, 4.0]}


def test_another_model_has_embeddings_of_its_own(cache: EmbeddingCache, folder: Path) -> None:
    cache.keep({"one": ONE})
    assert EmbeddingCache(folder, "model@2").known(["one"]) == {}


def test_more_texts_than_fit_into_one_question_are_found(cache: EmbeddingCache) -> None:
    texts = [str(number) for number in range(1201)]
    cache.keep({text: np.array([float(text), 0.0]) for text in texts})
    known = cache.known(texts)
    assert [known[text][0] for text in texts] == [float(text) for text in texts]


def test_no_text_lies_in_the_cache_and_nobody_else_can_read_it(cache: EmbeddingCache, folder: Path) -> None:
    cache.keep({"a secret of somebody": ONE})
    assert b"secret" not in file_of(cache).read_bytes()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_folder_that_others_may_enter_is_not_used(cache: EmbeddingCache, folder: Path) -> None:
    folder.mkdir(mode=0o755)
    cache.keep({"one": ONE})
    assert "is not this user's alone" in cache.trouble
    assert list(folder.iterdir()) == []


def test_a_torn_file_makes_room_for_a_new_one(cache: EmbeddingCache, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    file_of(cache).write_bytes(b"this is no database" * 100)
    assert cache.known(["one"]) == {}
    cache.keep({"one": ONE})
    assert list(cache.known(["one"])) == ["one"]


def test_a_vector_whose_bits_have_changed_is_computed_again(cache: EmbeddingCache) -> None:
    cache.keep({"one": ONE, "two": TWO})
    with sqlite3.connect(file_of(cache)) as connection:
        connection.execute("UPDATE embeddings SET vector = zeroblob(11) WHERE vector = ?", [changed(ONE)])
    connection.close()
    assert list(cache.known(["one", "two"])) == ["two"]
    cache.keep({"one": ONE})
    assert cache.known(["one"])["one"].tolist() == [1.0, 2.0]


def changed(vector: np.ndarray) -> bytes:
    return embedding_cache._packed(vector)


def test_a_folder_that_cannot_be_made_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = EmbeddingCache(tmp_path / "file" / "folder", "model")
    cache.keep({"one": ONE})
    assert "File exists" in cache.trouble
    assert cache.known(["one"]) == {}


def test_a_machine_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POTATO_MODEL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    cache = EmbeddingCache(cache_folder(), "model")
    cache.keep({"one": ONE})
    assert (cache.known(["one"]), cache.trouble) == ({}, "there is no home folder")


def test_a_python_without_sqlite_has_no_cache() -> None:
    code = (
        "import sys; sys.modules['sqlite3'] = None\n"
        "from pathlib import Path; from potato_ray.trainers.embedding_cache import EmbeddingCache\n"
        "cache = EmbeddingCache(Path('/no/where'), 'model'); cache.keep({'one': []})\n"
        "print(cache.known(['one']), cache.trouble)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "{} this Python has no sqlite3\n"


def test_a_full_disk_is_told_of_and_what_was_kept_before_is_known(
    cache: EmbeddingCache, folder: Path
) -> None:
    folder.mkdir(mode=0o700)
    cache.keep({"one": ONE})
    with SmallDisk(folder, size_mb=1):
        folder.chmod(0o700)
        cache.keep({str(number): np.full(100_000, number, dtype=np.float32) for number in range(9)})
        assert "full" in cache.trouble
        assert list(cache.known(["one", "1"])) == ["one"]


def test_a_disk_that_cannot_be_written_still_knows(cache: EmbeddingCache, folder: Path) -> None:
    cache.keep({"one": ONE})
    with SmallDisk(folder, size_mb=1) as disk:
        folder.chmod(0o700)
        with disk.read_only():
            assert list(cache.known(["one"])) == ["one"]
            cache.keep({"two": TWO})
        assert cache.trouble


def test_files_that_were_not_used_for_longest_make_room(
    folder: Path, cache: EmbeddingCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, used = EmbeddingCache(folder, "old"), EmbeddingCache(folder, "used")
    for number, each in enumerate((used, old)):
        each.keep({"one": ONE})
        os.utime(file_of(each), (number, number))
    used.known(["one"])
    monkeypatch.setattr(embedding_cache, "MOST_BYTES", file_of(old).stat().st_size + 1000)
    cache.keep({"two": TWO})
    assert set(folder.iterdir()) == {file_of(used), file_of(cache)}


def test_a_file_that_another_run_deletes_meanwhile_is_passed_over(
    cache: EmbeddingCache, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.keep({"one": ONE})
    gone = folder / "gone.sqlite"
    monkeypatch.setattr(Path, "glob", lambda self, _: iter([gone, *self.iterdir()]))
    cache.keep({"two": ONE})
    assert cache.trouble == ""
    assert set(EmbeddingCache(folder, "model@1").known(["one", "two"])) == {"one", "two"}


def test_runs_at_the_same_time_lose_nothing(folder: Path) -> None:
    def run(name: int) -> None:
        cache = EmbeddingCache(folder, "model")
        for number in range(20):
            cache.keep({f"{name} {number}": ONE})

    runs = [threading.Thread(target=run, args=(name,)) for name in range(4)]
    for each in runs:
        each.start()
    for each in runs:
        each.join(60)
    texts = [f"{name} {number}" for name in range(4) for number in range(20)]
    assert len(EmbeddingCache(folder, "model").known(texts)) == 80


def test_it_lies_where_models_are_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POTATO_MODEL_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / f"potato_ray-embeddings-{os.getuid()}"
    monkeypatch.delenv("POTATO_MODEL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "potato_ray" / "embeddings"
