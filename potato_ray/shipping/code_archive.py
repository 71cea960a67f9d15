"""The code that a worker runs, as a tar.gz that goes by its digest: `<state_dir>/code/<sha256>.tar.gz`.

Controller and routes find it there, each in its own process; a job that was made before the server was
updated still finds the code that it was made with.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from potato_ray.lock import private_folder
from potato_ray.shipping.packed import HashingFile, Packed, pack_into
from potato_ray.shipping.sources import worker_sources
from potato_ray.shipping.tar_writing import write_tar

FOLDER = "code"
KEPT = 8
"""The archives that stay, the present ones among them."""
_DIGEST = re.compile(r"[0-9a-f]{64}")
SUFFIX = ".tar.gz"


def code_archive(state_dir: Path) -> Packed:
    """The archive of the present code; made where it is missing. Raises OSError."""
    known = _made(state_dir)
    if known.path.is_file():
        return known
    _made.cache_clear()
    return _made(state_dir)


def find_code(state_dir: Path, digest: str) -> Path | None:
    """The archive with this digest; None where there is none. Raises OSError."""
    if not _DIGEST.fullmatch(digest):
        return None
    present = code_archive(state_dir)
    if present.sha256 == digest:
        return present.path
    kept = state_dir / FOLDER / f"{digest}{SUFFIX}"
    return kept if kept.is_file() else None


@lru_cache(maxsize=8)
def _made(state_dir: Path) -> Packed:
    """Once a process: a server that runs serves the code that it was started with."""
    folder = private_folder(state_dir / FOLDER)
    packed = pack_into(folder, _write, lambda digest: f"{digest}{SUFFIX}")
    forget_old(folder)
    return packed


def _write(target: HashingFile) -> None:
    write_tar(target, worker_sources())


def forget_old(folder: Path) -> None:
    """Remove the archives that were made first, beyond those that are kept. Raises OSError."""
    archives = sorted(folder.glob(f"*{SUFFIX}"), key=_age)
    for path in archives[:-KEPT]:
        path.unlink(missing_ok=True)


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process has tidied up
        return 0.0
