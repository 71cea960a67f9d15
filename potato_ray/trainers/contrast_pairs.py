"""Pairs of texts to learn from: alike where the answers are, drawn without ever listing all of them.

setfit's own drawing lists every pair first: 12.5 million for 5,000 texts, which takes 400 MB, and a hundred
times that for 50,000. Where there are few texts all pairs are looked at here too; otherwise they are
drawn at random until there are enough of both kinds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator

from potato_ray.trainers import kinds
from potato_ray.trainers.base import TrainerError

OVERSAMPLING, UNDERSAMPLING, UNIQUE = "oversampling", "undersampling", "unique"
SAMPLING = (OVERSAMPLING, UNDERSAMPLING, UNIQUE)
"""As many alike as unlike ones, the scarcer used again; as many, the others left out; as they come, of
either kind one at least."""

MOST_PAIRS = 50_000
"""Held at once; a longer training goes through them again."""
FEW_TEXTS = 500
"""Up to so many all pairs are listed, 124,750 at most."""
_BLOCK = 65_536
_MOST_DRAWN = 200 * _BLOCK


@dataclass(frozen=True)
class Pairs:
    """k pairs: the numbers of their `first` and `second` texts, and whether they are `alike` (booleans)."""

    first: Any
    second: Any
    alike: Any

    def __len__(self) -> int:
        return len(self.alike)


def draw_pairs(kind: str, targets: Any, sampling: str, most: int, seed: int) -> Pairs:
    """At most `most` pairs of different items, the alike and the unlike ones in turn.

    `targets` are label numbers, or n × labels booleans for multilabel, whose items are alike when they share
    a label or have none both; a label that all items have says nothing and does not count. Raises
    TrainerError (validation_failed) where no two items are alike, or all of them.
    """
    import numpy as np

    if kind == kinds.MULTILABEL:
        targets = targets[:, ~targets.all(axis=0)]
    most = max(2, min(most, MOST_PAIRS))
    draw = np.random.RandomState(seed)
    first, second, alike = _candidates(kind, targets, most, draw)
    if not alike.any():
        raise TrainerError(
            "validation_failed",
            f"No two of the {len(targets)} train items have the same answer; the model learns from such.",
            "Annotate two items or more of each label. One that all items have does not count.",
        )
    if alike.all():
        raise TrainerError(
            "validation_failed",
            f"No two of the {len(targets)} train items have unlike answers; the model learns from such, too.",
            "Annotate items that share no label, or choose hf-text-classification or sklearn-text.",
        )
    chosen = _chosen(alike, sampling, most)
    return Pairs(first[chosen], second[chosen], alike[chosen])


def _candidates(kind: str, targets: Any, most: int, draw: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    found: list[tuple[Any, Any, Any]] = []
    n_alike = n_unlike = 0
    for first, second in _blocks(len(targets), draw):
        alike = _alike(kind, targets, first, second)
        # Of what there is plenty, no more is kept than can be used.
        yes = np.flatnonzero(alike)[: max(0, most - n_alike)]
        no = np.flatnonzero(~alike)[: max(0, most - n_unlike)]
        n_alike, n_unlike = n_alike + len(yes), n_unlike + len(no)
        kept = np.concatenate([yes, no])
        kept.sort()
        found.append((first[kept], second[kept], alike[kept]))
        if min(n_alike, n_unlike) >= most:
            break
    first, second, alike = (np.concatenate(parts) for parts in zip(*found))
    return first, second, alike


def _blocks(n: int, draw: Any) -> Iterator[tuple[Any, Any]]:
    """All pairs in a random order, or blocks of random pairs."""
    import numpy as np

    if n <= FEW_TEXTS:
        first, second = np.triu_indices(n, 1)
        order = draw.permutation(len(first))
        yield first[order], second[order]
        return
    for _ in range(_MOST_DRAWN // _BLOCK):
        first, second = draw.randint(n, size=_BLOCK), draw.randint(n - 1, size=_BLOCK)
        yield first, second + (second >= first)


def _alike(kind: str, targets: Any, first: Any, second: Any) -> Any:
    if kind == kinds.MULTILABEL:
        shared = (targets[first] & targets[second]).any(axis=1)
        return shared | ~(targets[first] | targets[second]).any(axis=1)
    return targets[first] == targets[second]


def _chosen(alike: Any, sampling: str, most: int) -> Any:
    """The numbers of the candidates that are taken, a pair of both kinds after the other."""
    import numpy as np

    yes, no = np.flatnonzero(alike), np.flatnonzero(~alike)
    if sampling == UNIQUE:
        taken = np.arange(len(alike))[:most]
        # Where nearly all pairs are alike, or unlike, the first of the others takes the last one's place.
        for kind in (yes, no):
            taken[-1] = max(taken[-1], kind[0])
        return taken
    wanted = min(len(yes), len(no)) if sampling == UNDERSAMPLING else max(len(yes), len(no))
    wanted = min(wanted, most // 2)
    return np.stack([np.resize(yes, wanted), np.resize(no, wanted)], axis=1).ravel()
