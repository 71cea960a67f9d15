"""The pictures of a run: SVG made of text, with no plotting library and the same bytes for the same data.

Each is named and described for screen readers, follows the reader's light or dark mode, and holds no script.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from potato_ray.scoring.picture_confusion import confusion_matrix
from potato_ray.scoring.picture_curves import curves
from potato_ray.scoring.picture_reliability import reliability

__all__ = ["confusion_matrix", "curves", "reliability", "write"]


def write(folder: Path, name: str, svg: str) -> Path:
    """Write the picture `name` in `folder` (made if missing) in one step, and return its path.

    Raises ValueError when `name` is not a plain file name that ends in .svg.
    """
    if Path(name).name != name or not name.endswith(".svg"):
        raise ValueError(f"{name!r} is no file name for a picture: expected one like confusion.svg")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    descriptor, aside = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as handle:
            handle.write(svg)
        # mkstemp makes it private; the rest of the group may look at a picture as at a model's files.
        Path(aside).chmod(0o644)
        os.replace(aside, path)
    except BaseException:
        os.unlink(aside)
        raise
    return path
