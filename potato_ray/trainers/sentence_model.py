"""A sentence-transformers model in memory, loaded without running code that its folder brings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.installing import missing_dependency
from potato_ray.trainers.model_folder import MODULES
from potato_ray.trainers.quiet import quiet
from potato_ray.trainers.unreadable import in_a_line, is_memory

INSTALL = "pip install sentence-transformers"
_OWN = "sentence_transformers."
_KNOWN = frozenset(
    {"Transformer", "Pooling", "Normalize", "Dense", "LayerNorm", "Dropout", "StaticEmbedding"}
)
"""Parts that bring no others: parts in parts would have to be looked through as the library does."""


class SentenceModel:
    """`folder` holds a whole model; `device` is torch's name. Raises TrainerError.

    A transformers model that is none of sentence-transformers gets the mean of its last layer as embedding.
    """

    def __init__(self, folder: Path, device: str) -> None:
        check_parts(folder)
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as missing:
            raise missing_dependency(missing, INSTALL) from missing
        try:
            with quiet():
                # Half precision would give other embeddings on another device.
                self._model = SentenceTransformer(
                    str(folder), device=device, local_files_only=True, trust_remote_code=False
                ).float()
        except Exception as failure:  # torn weights: each library has its own kind
            if is_memory(failure):
                raise
            raise _unfit(folder, in_a_line(failure)) from failure

    def encode(self, texts: Sequence[str], batch_size: int, normalize: bool, prompt: str) -> Any:
        """n_texts × width, float32."""
        import numpy as np

        more = {"prompt": prompt} if prompt else {}
        vectors = self._model.encode(
            list(texts),
            batch_size=batch_size,
            normalize_embeddings=normalize,
            show_progress_bar=False,
            convert_to_numpy=True,
            **more,
        )
        return np.asarray(vectors, dtype=np.float32)


def check_parts(folder: Path) -> None:
    """Refuse parts that are code of the folder, and weights that are read by unpickling. Raises TrainerError.

    Before its version 6, sentence-transformers runs the code of a folder on this machine unasked.
    """
    if not (folder / MODULES).is_file():
        return
    try:
        for part in _json(folder / MODULES):
            _check_part(str(part["type"]), folder / str(part["path"]))
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as failure:
        raise _unfit(folder, f"its {MODULES} cannot be read ({failure})") from failure


def _check_part(kind: str, part: Path) -> None:
    if not kind.startswith(_OWN):
        raise _unfit(part, f"{kind} is none of sentence-transformers, and code of a model is never run")
    if kind.rpartition(".")[2] not in _KNOWN:
        raise _unfit(part, f"its part {kind} may bring others, and those are not looked through")
    config: Mapping[str, Any] = _json(part / "config.json") if kind.endswith(".Dense") else {}
    activation = str(config.get("activation_function", ""))
    if activation and not activation.startswith("torch.nn."):
        raise _unfit(part, f"its activation {activation} is none of torch, and other code is never run")
    safe = any((part / name).is_file() for name in ("model.safetensors", "model.safetensors.index.json"))
    if (part / "pytorch_model.bin").is_file() and not safe:
        raise _unfit(part, "its weights are pickled, which can run code")


def _json(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def _unfit(folder: Path, reason: str) -> TrainerError:
    return TrainerError(
        "validation_failed",
        f"{folder} cannot be loaded as a model of sentences: {reason}.",
        "Choose a sentence-transformers model whose weights are safetensors.",
    )
