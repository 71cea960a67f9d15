"""A sentence model as the body of a SetFit model: loaded without running its code, asked, and saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Sequence

from potato_ray.trainers import partial_model
from potato_ray.trainers.model_folder import MODULES
from potato_ray.trainers.sentence_model import check_parts
from potato_ray.trainers.unreadable import is_memory, unreadable


def load(folder: Path, device: str, normalize: bool, max_length: int | None = None) -> Any:
    """A setfit.SetFitModel whose body is the model in `folder`, without a head; the Hub is not asked.

    A transformers model that is none of sentence-transformers gets the mean of its last layer as embedding.
    Raises TrainerError (validation_failed), and ImportError where a package is missing.
    """
    import sentence_transformers
    import setfit

    check_parts(folder)
    try:
        body = sentence_transformers.SentenceTransformer(
            str(folder), device=device, local_files_only=True, trust_remote_code=False
        )
    except Exception as failure:  # torn weights: each library has its own kind
        if is_memory(failure):
            raise
        advice = "choose a sentence-transformers model, or a transformers model of texts"
        raise unreadable(folder, failure, "embed texts", advice) from failure
    body.float()  # in 16 bits a step of learning would be rounded away
    if max_length is not None:
        body.max_seq_length = min(max_length, body.max_seq_length or max_length)
    return setfit.SetFitModel(model_body=body, normalize_embeddings=normalize)


def is_sentence_model(folder: Path) -> bool:
    """Whether a folder's model says itself how its embeddings are made."""
    return (folder / MODULES).is_file()


def embeddings(model: Any, texts: Sequence[str], batch_size: int) -> Any:
    """n × width, float32."""
    return model.encode(list(texts), batch_size=batch_size, show_progress_bar=False)


def save(model: Any, folder: Path) -> None:
    """Write the body as safetensors with its tokenizer, aside first: a folder of that name is whole."""
    temporary = folder.with_name(folder.name + ".part")
    partial_model.remove(temporary)
    model.model_body.save(str(temporary), create_model_card=False, safe_serialization=True)
    partial_model.remove(folder)
    os.replace(str(temporary), str(folder))
