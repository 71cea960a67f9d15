"""Models that a library cannot read, in words: each library raises kinds of its own, some without any."""

from __future__ import annotations

from pathlib import Path

from potato_ray.trainers.base import TrainerError

_MOST = 300
_MEMORY = ("out of memory", "can't allocate memory")


def is_memory(failure: BaseException) -> bool:
    """Whether it is memory that was lacking: no fault of the model's, and explained elsewhere."""
    return isinstance(failure, MemoryError) or any(words in str(failure) for words in _MEMORY)


def in_a_line(failure: BaseException) -> str:
    """The kind of a failure and the first line of its message."""
    lines = str(failure).strip().splitlines()
    return f"{type(failure).__name__}: {lines[0][:_MOST]}" if lines else type(failure).__name__


def unreadable(
    folder: Path,
    failure: BaseException,
    purpose: str = "classify texts",
    advice: str = "choose a model that transformers can classify sequences with",
) -> TrainerError:
    """What to raise for a folder whose model cannot be used."""
    return TrainerError(
        "validation_failed",
        f"The model in {folder} cannot be used to {purpose}: {in_a_line(failure)}",
        f"Copy the folder again if it is damaged, or {advice}.",
    )
