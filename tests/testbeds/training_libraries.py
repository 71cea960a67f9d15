"""What trainers import and nobody else may; a base install has none of it."""

from __future__ import annotations

TRAINING = frozenset(
    {
        "accelerate",
        "bitsandbytes",
        "datasets",
        "evaluate",
        "peft",
        "rdkit",
        "safetensors",
        "sentence_transformers",
        "setfit",
        "tokenizers",
        "torch",
        "transformers",
    }
)
EXTRAS = TRAINING | {"pandas", "pyarrow"}
NUMERICAL = TRAINING | {"numpy", "pandas", "scipy", "sklearn", "skops"}
"""These load slowly: what only looks does not need them."""
