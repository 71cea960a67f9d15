"""Small molecules by the hundred, with what is to be learnt of them."""

from __future__ import annotations

import random

CHAINS = ("C", "CC", "CCC", "CCCC", "CCCCC", "CC(C)", "CC(C)C", "C=C", "C#C", "CCOC", "CSC", "FC", "BrCC")
POLAR = ("O", "N", "C(=O)O", "C(N)=O", "S(=O)(=O)N")
PLAIN = ("C", "Cl", "F", "c1ccccc1", "C1CCCCC1", "c1ccc(C)cc1")
MOLECULES = tuple((chain + end, end in POLAR) for chain in CHAINS for end in (*POLAR, *PLAIN))
NO_MOLECULES = ("hello there", "C1CC", "", "c1cccc1", "(")


def drawn(seed: int = 0) -> list[tuple[str, bool]]:
    """All of them as (SMILES, polar), in a random order: 143, of which 65 are polar."""
    return random.Random(seed).sample(MOLECULES, len(MOLECULES))


def targets_of(kind: str, drawn: list[tuple[str, bool]]) -> list[object]:
    """What a scheme of trainer_samples.SCHEMES would hold for them."""
    return {
        "nominal": ["good" if polar else "bad" for _, polar in drawn],
        "ordinal": ["1" if not polar else "3" if "N" in smiles else "5" for smiles, polar in drawn],
        "multilabel": [
            [name for name, holds in (("price", polar), ("service", "c1" in smiles)) if holds]
            for smiles, polar in drawn
        ],
        "continuous": [10.0 * smiles.count("C") + 30.0 * polar for smiles, polar in drawn],
    }[kind]
