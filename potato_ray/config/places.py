"""Which keys are valid at which place of a configuration."""

from __future__ import annotations

from potato_ray.config import models
from potato_ray.config.backends import BACKEND_TYPES
from potato_ray.config.blocks import Block
from potato_ray.config.document import Document, KeyPath
from potato_ray.config.spelling import listed

BLOCKS: dict[KeyPath, type[Block]] = {
    (): models.ProjectConfig,
    ("item_properties",): models.ItemProperties,
    ("user_config",): models.UserConfig,
    ("datasets",): models.Datasets,
    ("ai_support",): models.AiSupport,
    ("pre_annotation",): models.PreAnnotation,
    ("model_training",): models.ModelTraining,
    ("model_training", "splits"): models.Splits,
    ("model_training", "auto_retrain"): models.AutoRetrain,
    ("model_training", "writeback"): models.Writeback,
    ("model_training", "notify"): models.Notify,
    ("model_training", "tiling"): models.Tiling,
}
"""Path → the block that stands there; a backend's block depends on its type."""


def keys_of(block: type[Block]) -> list[str]:
    """The keys as people write them."""
    return [field.alias or name for name, field in block.model_fields.items() if name != "path"]


def is_backend(path: KeyPath) -> bool:
    """Whether one backend stands at `path`."""
    return len(path) == 3 and path[:2] == ("model_training", "backends")


def keys_at(document: Document, path: KeyPath) -> list[str]:
    """The keys that are valid at `path`; none where any are, or nothing is known."""
    if is_backend(path):
        backend = BACKEND_TYPES.get(document.text(*path, "type"))
        return keys_of(backend) if backend else []
    return keys_of(BLOCKS[path]) if path in BLOCKS else []


def name_of(document: Document, path: KeyPath) -> str:
    """What people call the block at `path`."""
    if is_backend(path):
        return f"the type {document.text(*path, 'type')}"
    return ".".join(map(str, path)) or "the configuration"


def our_keys() -> set[str]:
    """Every key of model_training, of its blocks and of the backends."""
    ours = [block for path, block in BLOCKS.items() if path[:1] == ("model_training",)]
    return {key for block in [*ours, *BACKEND_TYPES.values()] for key in keys_of(block)}


def owners_of(key: str) -> str:
    """The places in model_training that do have `key`, in words; "" when there is none."""
    blocks = [".".join(map(str, path)) for path, block in BLOCKS.items() if path and key in keys_of(block)]
    ours = [name for name in blocks if name.startswith("model_training")]
    types = [name for name, block in BACKEND_TYPES.items() if key in keys_of(block)]
    backends = [f"the backend type{'s' if len(types) > 1 else ''} {listed(types, 'and')}"] if types else []
    return listed(ours + backends, "and")
