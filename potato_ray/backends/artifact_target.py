"""Where a model file from a host goes here: below one folder, and through no link."""

from __future__ import annotations

from pathlib import Path

from potato_ray.agent.member_names import shown


def target_in(folder: Path, path: str) -> Path:
    """Where the file of this plain path goes. Raises ValueError with a sentence's rest."""
    *folders, _ = path.split("/")
    place = folder
    for each in folders:
        place = place / each
        if place.is_symlink() or (place.exists() and not place.is_dir()):
            raise ValueError(f"the way to {shown(path)} leads through something that is no folder")
    return target_below(place, path)


def target_below(place: Path, path: str) -> Path:
    """The same, where its folder is known to be one. Raises ValueError with a sentence's rest."""
    target = place / path.rpartition("/")[2]
    if target.is_dir():
        raise ValueError(f"{shown(path)} is a folder here")
    return target
