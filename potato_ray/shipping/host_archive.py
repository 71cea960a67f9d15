"""The code that goes to a host that we reach over ssh: what an agent, its launchers and its workers need."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from potato_ray.lock import private_folder
from potato_ray.shipping.code_archive import FOLDER, SUFFIX, forget_old
from potato_ray.shipping.packed import HashingFile, Packed, pack_into
from potato_ray.shipping.sources import host_sources
from potato_ray.shipping.tar_writing import write_tar


def host_archive(state_dir: Path) -> Packed:
    """The archive of the present code, at `<state_dir>/code/<sha256>.tar.gz`; made where it is missing.

    A job that names its sha256 as its code finds it on the host, and fetches nothing. Raises OSError.
    """
    known = _made(state_dir)
    if known.path.is_file():
        return known
    _made.cache_clear()
    return _made(state_dir)


@lru_cache(maxsize=8)
def _made(state_dir: Path) -> Packed:
    """Once a process: a server that runs ships the code that it was started with."""
    folder = private_folder(state_dir / FOLDER)
    packed = pack_into(folder, _write, lambda digest: f"{digest}{SUFFIX}")
    forget_old(folder)
    return packed


def _write(target: HashingFile) -> None:
    write_tar(target, host_sources())
