"""Texts that stand in train and are held out as well: what a model says of those is no test of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b

from potato_ray.bundle.split_names import HELD_OUT

LEAST_SHARE = 0.02
"""Of the held-out items; fewer copies, such as of a short answer, hardly move a score."""


class Copies:
    """Counts them while the rows are written; texts are alike but for letters' case and blanks."""

    def __init__(self) -> None:
        self._train: set[bytes] = set()
        self._held_out: dict[str, Counter[bytes]] = {split: Counter() for split in HELD_OUT}

    def add(self, split: str, text: str) -> None:
        """Look at an item; one without text has no copies."""
        words = " ".join(text.split()).casefold()
        if not words:
            return
        key = blake2b(words.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if split in self._held_out:
            self._held_out[split][key] += 1
        elif split == "train":
            self._train.add(key)

    def warnings(self, group_key: str | None) -> Iterator[str]:
        """One, where there are enough of them to flatter the held-out score."""
        totals = {split: found.total() for split, found in self._held_out.items()}
        copies = {
            split: sum(n for key, n in found.items() if key in self._train)
            for split, found in self._held_out.items()
        }
        if not sum(copies.values()) or sum(copies.values()) < LEAST_SHARE * sum(totals.values()):
            return
        counts = " and ".join(f"{n} of {totals[split]} {split} items" for split, n in copies.items() if n)
        verb = "has" if sum(copies.values()) == 1 else "have"
        remedy = f"give copies the same {group_key}" if group_key else "name what they share as group_key"
        yield (
            f"{counts} {verb} the text of a train item, which flatters the held-out score. Take out what is "
            f"there twice, or {remedy}."
        )
