"""The pictures of a bundle: found in the project, and linked into the bundle's media folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

from potato_ray.project.items import Item
from potato_ray.project.paths import ProjectPaths

FOLDER = "media"
_NAME = re.compile(r"\S+\.(png|jpe?g|gif|webp|bmp|tiff?|svs|ndpi|mrxs|scn)", re.IGNORECASE)
_MAX_LENGTH = 1024


def is_media(text: str) -> bool:
    """Whether a text is the name of a picture rather than something to read."""
    return len(text) <= _MAX_LENGTH and _NAME.fullmatch(text.strip()) is not None


class MediaLinks:
    """Links the pictures of items into `folder`/<two hex digits>/.

    A picture is looked for in the media directory, in the project's folder and beside the data file,
    and nowhere else: a path that leads out of them, or a URL, counts as missing.
    """

    def __init__(self, paths: ProjectPaths, folder: Path) -> None:
        self._paths = paths
        self._folder = folder
        self._targets: dict[str, Path] = {}
        self.n_linked = 0
        self.n_missing = 0
        media = () if paths.media_directory is None else (paths.media_directory,)
        self._roots = tuple(root.resolve() for root in (*media, paths.task_dir))
        self._data_folders = tuple(path.parent.resolve() for path in paths.data_paths)

    def link(self, item: Item) -> str | None:
        """The link's path below the media folder, or None where the picture is missing."""
        source = self._find(item)
        if source is None:
            self.n_missing += 1
            return None
        self.n_linked += 1
        name = self._name(source)
        if name not in self._targets:
            self._targets[name] = source
            link = self._folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(source)
        return name

    def _find(self, item: Item) -> Path | None:
        reference = item.text.strip().removeprefix("file://")
        if not reference or "://" in reference or "\0" in reference or len(reference) > _MAX_LENGTH:
            return None
        roots = (*self._roots, self._data_folders[item.file_number])
        for candidate in self._candidates(reference, roots):
            try:
                found = candidate.resolve()
                if found.is_file() and any(found.is_relative_to(root) for root in roots):
                    return found
            except (OSError, RuntimeError):
                continue
        return None

    def _candidates(self, reference: str, roots: tuple[Path, ...]) -> Iterator[Path]:
        for text in dict.fromkeys((reference, unquote(reference))):
            relative = text.lstrip("/")
            if self._paths.media_directory is not None:
                # Potato serves the media directory under its own name: /media/a.png is a.png in it.
                yield self._roots[0] / relative.removeprefix(f"{self._paths.media_directory.name}/")
            yield from (root / relative for root in roots)
            if text.startswith("/"):
                yield Path(text)

    def _name(self, source: Path) -> str:
        """`cc/shape1.png`; a second picture of that name gets more of its hash in front."""
        digest = sha256(self._paths.shown(source).encode("utf-8", "surrogateescape")).hexdigest()
        name = f"{digest[:2]}/{source.name}"
        if self._targets.get(name, source) != source:
            name = f"{digest[:2]}/{digest[:16]}-{source.name}"
        return name
