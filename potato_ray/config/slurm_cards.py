"""Whether a SLURM job gets GPUs, by what is asked of sbatch."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_CARDS: Final = re.compile(r"(?:^|[\s=,/])(?:gpu|mps|shard)(?=[\s=,:]|$)")
"""A resource for which SLURM sets CUDA_VISIBLE_DEVICES, in a list such as "lscratch:10,gpu:a100:2"."""
_CARD_FLAG: Final = re.compile(r"(?:^|\s)(?:-G|--gpus)")
_RESOURCE_FLAG: Final = re.compile(r"(?:^|\s)--(?:gres|tres)[^\s=]*[\s=]+(\S+)")


def asks_for_cards(gres: str, sbatch_args: Sequence[str]) -> bool:
    """Whether SLURM gives a job GPUs: by the value of gres, or by a flag among `sbatch_args`."""
    if any(_CARD_FLAG.search(each) for each in sbatch_args):
        return True
    asked = [gres, *_RESOURCE_FLAG.findall("\n".join(sbatch_args))]
    return any(_CARDS.search(each) for each in asked)
