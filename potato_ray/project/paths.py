"""Where the files of a Potato project lie, and which fields of an item hold its id and its text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIST_PREFIXES = ("alphabet", "number", "bullet", "none")


@dataclass(frozen=True)
class ProjectPaths:
    """All that is needed to read a project's items and annotations; every path is absolute.

    `output_dir` holds one folder per annotator. `list_prefix`, one of LIST_PREFIXES, is how the parts of
    a text that is a list are marked when they are joined.
    """

    task_dir: Path
    data_paths: tuple[Path, ...]
    output_dir: Path
    id_key: str = "id"
    text_key: str = "text"
    media_directory: Path | None = None
    list_prefix: str = "alphabet"

    @classmethod
    def from_config(cls, config: Any) -> ProjectPaths:
        """The paths that a loaded configuration (config.models.ProjectConfig) names."""
        task_dir = Path(config.task_dir).absolute()
        media = getattr(config, "media_directory", None)
        return cls(
            task_dir=task_dir,
            data_paths=tuple(task_dir / path for path in config.data_paths),
            output_dir=task_dir / config.output_dir,
            id_key=config.item_properties.id_key,
            text_key=config.item_properties.text_key,
            media_directory=task_dir / media if media else None,
            list_prefix=_list_prefix(getattr(config, "list_as_text", None)),
        )

    def shown(self, path: Path) -> str:
        """A path as people may see it: relative to the project, or the bare name outside of it."""
        try:
            return str(path.relative_to(self.task_dir))
        except ValueError:
            return path.name


def _list_prefix(list_as_text: Any) -> str:
    """The prefix type of Potato's `list_as_text` block; alphabet where it says nothing that we know."""
    chosen = list_as_text.get("text_list_prefix_type") if isinstance(list_as_text, dict) else None
    return str(chosen) if chosen in LIST_PREFIXES else "alphabet"
