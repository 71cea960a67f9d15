"""Pretrained models: where one is that a run names, and a plain refusal where it cannot be had.

A name is a folder, or the id of a model on the Hugging Face Hub. What is in a cache is used without
asking the Hub, so that a run on a machine without network is the same as on one with it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from potato_ray.trainers import model_hub
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.model_folder import lacks

_PART = r"\w(?:[\w.-]{0,94}\w)?"
_HUB_ID = re.compile(f"{_PART}(?:/{_PART})?", re.ASCII)
_PATH = re.compile(r"[/~.]|[A-Za-z]:|.*\\|.*/.*/")
"""What begins so is meant as a folder, here or on Windows, never as an id."""
_RELATIVE = re.compile(r"\.|(?![A-Za-z]:)[^/~\\][^/\\]*(?:\\|/.*/)")
"""What begins so is meant as a folder, and from another one."""
_ADDRESS = re.compile(r"https?://|(?:www\.)?(?:hf\.co|huggingface\.co)/", re.IGNORECASE)


@dataclass(frozen=True)
class Source:
    """A model that is on this machine: `folder`, an absolute path, holds its files.

    `name` is what the run calls it, `revision` the commit of one from the Hub, "" for a folder of the user's.
    """

    name: str
    folder: Path
    revision: str = ""

    @property
    def short(self) -> str:
        """Its name in a step line: of a folder of the user's the last part alone."""
        return self.name if self.revision else self.folder.name or self.name

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "revision": self.revision}


def locate(name: str, revision: str = "", tell: Callable[[str], None] | None = None) -> Source:
    """Find a model, or fetch it. Raises TrainerError: validation_failed, missing_dependency.

    With `revision` it is that commit of the Hub's model and no other. `tell` gets a line before anything
    is fetched, which may take minutes; a Hub that does not answer is given up after
    model_hub.FIRST_ANSWER_S.
    """
    if not name.strip():
        raise _refused("No model is named: model_name is empty.")
    folder = _folder(name)
    if folder is not None:
        return Source(name, _whole(folder, name))
    if _ADDRESS.match(name):
        raise _refused(f"model_name {_shown(name)} is an address.")
    if _RELATIVE.match(name):
        raise TrainerError(
            "validation_failed",
            f"model_name {_shown(name)} is no whole path, and a run has no folder of yours to begin in.",
            "Give model_name the folder's whole path on the machine that trains (~/… for the home there), or "
            "the id of a model on the Hugging Face Hub (owner/name).",
        )
    if _PATH.match(name):
        raise _refused(f"model_name names no folder on this machine: {_shown(name)}.")
    if not _HUB_ID.fullmatch(name) or "--" in name or ".." in name:
        raise _refused(f"{_shown(name)} is neither a folder nor the id of a model.")
    return _from_hub(name, revision, tell)


def _from_hub(name: str, revision: str, tell: Callable[[str], None] | None) -> Source:
    torn = ""
    for snapshot in model_hub.snapshots(name, revision):
        missing = lacks(snapshot)
        if not missing:
            return Source(name, snapshot, snapshot.name)
        torn = torn or f"{snapshot} lacks {missing}"
    if tell is not None:
        tell(f"fetching the model {name}")
    fetched = model_hub.fetch(name, revision, torn)
    return Source(name, _whole(fetched, name), fetched.name)


def _folder(name: str) -> Path | None:
    try:
        folder = Path(name).expanduser()
        return folder.resolve() if folder.is_dir() else None
    except OSError as failure:
        raise _refused(f"{_shown(name)} cannot be looked into: {failure.strerror}.") from failure
    except (RuntimeError, ValueError):  # a home, or characters, that no file system knows
        return None


def _whole(folder: Path, name: str) -> Path:
    missing = lacks(folder)
    if not missing:
        return folder
    advice = "Name the folder that the model was saved to with save_pretrained, or the id of another model."
    raise TrainerError(
        "validation_failed", f"{_shown(name)} is no whole model: {folder} lacks {missing}.", advice
    )


def _refused(message: str) -> TrainerError:
    return TrainerError(
        "validation_failed",
        message,
        "Give model_name the folder of a model on the machine that trains, or its id on the Hugging Face Hub "
        "(owner/name).",
    )


def _shown(name: str) -> str:
    return name if name.isprintable() and len(name) <= 200 else ascii(name)[:200]
