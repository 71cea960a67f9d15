"""Which GPU of this machine a job gets: the one with the most free memory, as on every other backend."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

from potato_ray.agent.machine import list_gpus

VISIBLE = "CUDA_VISIBLE_DEVICES"


def with_card(
    spec: Mapping[str, Any], cards: Callable[[], list[dict[str, Any]]] = list_gpus
) -> dict[str, Any]:
    """The spec with the card that the worker shall see.

    As it is where the server has said which, where the job wants another device than `auto`, where
    whoever started this agent has chosen by CUDA_VISIBLE_DEVICES, and where nvidia-smi tells of no
    free memory.
    """
    limits = dict(spec.get("limits") or {})
    if limits.get("device") != "auto" or limits.get("gpu_uuids") is not None or VISIBLE in os.environ:
        return dict(spec)
    known = [card for card in cards() if card["free_mb"] is not None]
    if not known:
        return dict(spec)
    best = max(known, key=lambda card: card["free_mb"])
    return {**spec, "limits": {**limits, "gpu_uuids": [best["uuid"]]}}
