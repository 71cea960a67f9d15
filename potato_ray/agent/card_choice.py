"""Which GPU of this machine a job gets: the one with the most free memory, as on every other backend.

Where the server has chosen, somebody else may have taken that card's memory since: it is looked at again.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

from potato_ray.agent.held_job import Failure
from potato_ray.agent.launching import NotLaunched
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


def check_cards(
    spec: Mapping[str, Any],
    least_mb: float | None,
    cards: Callable[[], list[dict[str, Any]]] = list_gpus,
) -> None:
    """Raises NotLaunched (no_gpu_free) where a card that the spec names has less free than `least_mb` MiB.

    A card of which that is unknown counts as free.
    """
    chosen = (spec.get("limits") or {}).get("gpu_uuids")
    if least_mb is None or not chosen:
        return
    for card in cards():
        if card["uuid"] in chosen and card["free_mb"] is not None and card["free_mb"] < least_mb:
            raise NotLaunched(
                Failure(
                    "no_gpu_free",
                    f"No GPU has {least_mb:.0f} MB free: {card['name']}, which was chosen for this run, had "
                    f"{card['free_mb']} MB left when its worker was to start.",
                    "Start the run again later, or lower min_free_gpu_mb.",
                )
            )
