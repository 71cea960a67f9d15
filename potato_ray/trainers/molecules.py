"""Molecules from SMILES: which texts are none, what each of them is called, and its scaffold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Sequence

MOST_NAMED = 5
_SHOWN_CHARS = 60


@dataclass(frozen=True)
class Molecules:
    """Those of n texts that are molecules: `numbers` are their places among the texts."""

    found: list[Any]
    numbers: list[int]


def read(texts: Sequence[str]) -> Molecules:
    """Parse each text; what stands behind a blank is the molecule's name, as in a .smi file."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        parsed = [_parsed(text.strip()) for text in texts]
    numbers = [number for number, molecule in enumerate(parsed) if molecule is not None]
    return Molecules([parsed[number] for number in numbers], numbers)


def canonical(molecule: Any) -> str:
    """The same text for the same molecule, however its SMILES was written."""
    from rdkit import Chem

    return str(Chem.MolToSmiles(molecule))


def scaffold(smiles: str) -> str | None:
    """The Bemis-Murcko scaffold as SMILES, without a ring the molecule itself; None for no molecule.

    So the same molecule is never in train and held out, however it is written.
    """
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    found = read([smiles]).found
    if not found:
        return None
    with rdBase.BlockLogs():
        return str(MurckoScaffold.MurckoScaffoldSmiles(mol=found[0])) or canonical(found[0])


def shown(text: str) -> str:
    """A text of an item, as a message names it."""
    return repr(text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…")


@dataclass
class Invalid:
    """The items whose text is no molecule: how many, and the first MOST_NAMED of them."""

    count: int = 0
    named: tuple[str, ...] = ()

    def add(self, instance_id: str, text: str) -> None:
        self.count += 1
        if len(self.named) < MOST_NAMED:
            self.named = (
                *self.named,
                f"{instance_id} ({shown(text)})" if text.strip() else f"{instance_id} (empty)",
            )

    def in_words(self, n_items: int, what: str) -> str:
        """`3 of 40 train items have no SMILES that RDKit reads: …`"""
        names = ", ".join(self.named)
        more = f" and {self.count - len(self.named)} more" if self.count > len(self.named) else ""
        verb = "has" if self.count == 1 else "have"
        return f"{self.count} of {n_items} {what} {verb} no SMILES that RDKit reads: {names}{more}"


def _parsed(text: str) -> Any:
    from rdkit import Chem

    text = text.encode("utf-8", "replace").decode("utf-8")  # RDKit takes no half of a surrogate pair
    molecule = Chem.MolFromSmiles(text) if text else None
    if molecule is None and " |" in text:
        # What stands between bars is read as a part of the molecule; it may be a name all the same.
        molecule = Chem.MolFromSmiles(text.partition(" ")[0])
    return molecule if molecule is not None and molecule.GetNumAtoms() else None
