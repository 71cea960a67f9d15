"""Whether a folder holds a whole model, as transformers and sentence-transformers save it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Iterable, Iterator

CONFIG = "config.json"
MODULES = "modules.json"
"""Lists the parts of a sentence-transformers model; one of them may have its files in a folder below."""
_WEIGHTS = "*.safetensors"
_SHARDS = "*.safetensors.index.json"
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
_TOKENIZER = ("*tokenizer*", "vocab*", "*.model", "*.spm")
_READ = ("*.json", "*.txt", "*.model", "*.spm", "*.safetensors")
_WITH_CONFIG = frozenset({"Transformer", "Pooling", "Dense"})
"""Parts that cannot be loaded without the configuration in their folder."""


def lacks(folder: Path) -> str:
    """What the model in `folder` is not whole without, in words; "" where nothing is missing.

    Only weights as safetensors count: reading pickled ones can run code.
    """
    try:
        return next(_missing(folder), "")
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as failure:
        return f"files that can be read ({failure})"


def digest(folder: Path) -> str:
    """SHA-256 over the files that a model is read from, as hexadecimal digits."""
    total = hashlib.sha256()
    places = [folder, *(folder / part for part in _parts(folder) if part)]
    for path in sorted(set(_found(places, _READ))):
        content = hashlib.sha256()
        with path.open("rb") as handle:
            for block in iter(lambda: handle.read(1 << 20), b""):
                content.update(block)
        total.update(f"{path.relative_to(folder).as_posix()}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()


def _missing(folder: Path) -> Iterator[str]:
    parts = _parts(folder)
    places = [folder, *(folder / part for part in parts)]
    if not parts and not (folder / CONFIG).is_file():
        yield CONFIG
    yield from (name for name in _configurations(folder) if not (folder / name).is_file())
    for index in _found(places, (_SHARDS,)):
        shards = set(_read(index)["weight_map"].values())
        yield from sorted(str(shard) for shard in shards if not (index.parent / str(shard)).is_file())
    if not any(_found(places, (_WEIGHTS,))):
        pickled = any(_found(places, _PICKLED))
        yield "weights as safetensors" + (" (pickled ones can run code, and are not read)" if pickled else "")
    if not any(_found(places, _TOKENIZER)):
        yield "its tokenizer's files"


def _parts(folder: Path) -> list[str]:
    """The folders of the parts of a sentence-transformers model; "" for one whose files lie in the root."""
    return [part for part, _ in _modules(folder)]


def _configurations(folder: Path) -> list[str]:
    wanted = [part for part, kind in _modules(folder) if kind in _WITH_CONFIG]
    return [f"{part}/{CONFIG}" if part else CONFIG for part in wanted]


def _modules(folder: Path) -> list[tuple[str, str]]:
    if not (folder / MODULES).is_file():
        return []
    listed = _read(folder / MODULES)
    return [
        (str(module.get("path", "")), str(module.get("type", "")).rpartition(".")[2]) for module in listed
    ]


def _found(places: Iterable[Path], patterns: Iterable[str]) -> Iterator[Path]:
    """Files that are there: a link into a cache may lead nowhere."""
    patterns = tuple(patterns)
    return (
        path for place in places for pattern in patterns for path in place.glob(pattern) if path.is_file()
    )


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError as failure:
        raise ValueError(f"{path.name} is no JSON: {failure}") from failure
