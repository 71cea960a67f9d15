"""The split of an item: a seeded hash of its id, so that it stays the same for the life of a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from potato_ray.bundle.split_names import SPLITS

_FULL = 0xFFFFFFFF


def assign(keys: Sequence[str], seed: int, fractions: Mapping[str, float]) -> list[str]:
    """The split of each key (an item's id, or its group): train, val or test.

    The first 32 bits of sha256("<seed>:<key>"), as a share of 1, against the cumulative fractions in
    the order train, val, test. Raises ValueError unless the fractions add up to more than 0.
    """
    shares = np.array([float(fractions.get(name, 0.0)) for name in SPLITS])
    if not np.isfinite(shares).all() or (shares < 0).any() or shares.sum() <= 0:
        raise ValueError(f"the split fractions {dict(fractions)} do not add up to more than 0")
    numbers = np.searchsorted(np.cumsum(shares / shares.sum()), _positions(keys, seed), side="right")
    last = int(np.flatnonzero(shares)[-1])
    return [SPLITS[number] for number in np.minimum(numbers, last)]


def _positions(keys: Sequence[str], seed: int) -> NDArray[np.float64]:
    """Where each key falls in 0..1."""
    prefix = f"{seed}:".encode()
    heads = b"".join(sha256(prefix + key.encode("utf-8")).digest()[:4] for key in keys)
    return np.frombuffer(heads, dtype=">u4").astype(np.float64) / _FULL
