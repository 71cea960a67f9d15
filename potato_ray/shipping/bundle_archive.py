"""bundle.tar.gz: a run's bundle in one file, as an agent fetches it."""

from __future__ import annotations

from pathlib import Path

from potato_ray.shipping.packed import HashingFile, Packed, pack_into
from potato_ray.shipping.tar_writing import files_below, write_tar

NAME = "bundle.tar.gz"


def pack_bundle(folder: Path, archive: Path) -> Packed:
    """Pack all files of a bundle's folder into `archive`, with names relative to it; streamed.

    The pictures, which are links in the folder, are files in the archive. Raises OSError.
    """

    def write(target: HashingFile) -> None:
        write_tar(target, files_below(folder))

    return pack_into(archive.parent, write, lambda digest: archive.name)
