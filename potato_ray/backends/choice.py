"""Which GPU a run gets: pure rules over the cards that a machine has.

auto       the card with the most free memory; refuses when none has enough
indices    exactly these cards, however full they are
none       the CPU
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass
from typing import Final, Literal

from potato_ray.backends.base import Refusal
from potato_ray.backends.gpus import Card

Wanted = Literal["auto", "none"] | tuple[int, ...]
Kernels = Callable[[Card], bool]
"""Whether the torch that will be used has kernels for a card."""

NO_KERNELS: Final = "(torch there has no kernels for it)"
DEFAULT_MIN_FREE_MB: Final = 2000
HELD: Final = "held by another run"


@dataclass(frozen=True)
class Choice:
    """The cards for a run; () means the CPU. `warnings` go into the run's log."""

    cards: tuple[Card, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_wanted(gpus: str | int) -> Wanted:
    """The value of a `gpus` key: "auto", "none", "1", "0,1" or 1. Raises ValueError for others."""
    text = str(gpus).strip()
    if text == "auto":
        return "auto"
    if text == "none":
        return "none"
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ValueError(f"gpus is {gpus!r}; it is auto, none, or indices such as 0 or 0,1")
    return tuple(dict.fromkeys(int(part) for part in parts))


def choose(
    cards: Sequence[Card],
    wanted: Wanted,
    *,
    min_free_mb: float = DEFAULT_MIN_FREE_MB,
    taken: Set[str] = frozenset(),
    kernels: Kernels | None = None,
) -> Choice | Refusal:
    """Choose among `cards`; `taken` are the UUIDs that other runs hold, which nobody gets twice.

    A machine without any card trains on its CPU under auto. Pinned cards are not subject to
    `min_free_mb`. A refusal has `wait` when only runs of ours stand in the way.
    """
    if wanted == "none" or (wanted == "auto" and not cards):
        return Choice()
    if wanted == "auto":
        return _freest(cards, min_free_mb, taken, kernels)
    return _pinned(cards, wanted, taken, kernels)


def state_of(card: Card, taken: Collection[str] = (), kernels: Kernels | None = None) -> str:
    """One card in words: "GPU 0 (NVIDIA A100): 39000 of 40960 MB free"."""
    words = f"{card.label} ({card.name}): "
    words += f"cannot be used ({card.problem})" if card.problem else card.memory
    if card.uuid in taken:
        words += f", {HELD}"
    if kernels is not None and not kernels(card):
        words += f" {NO_KERNELS}"
    return words


def _freest(
    cards: Sequence[Card], min_free_mb: float, taken: Set[str], kernels: Kernels | None
) -> Choice | Refusal:
    working = [card for card in cards if not card.problem]
    fitting = [card for card in working if kernels is None or kernels(card)]
    if working and not fitting:
        return _no_kernels(cards, taken, kernels)
    readable = [card for card in fitting if card.free_mb is not None]
    # Where no card tells its memory (unified memory), refusing all of them would help nobody.
    candidates = [card for card in readable or fitting if card.uuid not in taken]
    enough = [card for card in candidates if card.free_mb is None or card.free_mb >= min_free_mb]
    if not enough:
        return _none_free(cards, min_free_mb, taken, kernels, wait=_would_fit(fitting, min_free_mb, taken))
    best = max(enough, key=_preference)
    return Choice((best,), _unknown_memory(best, min_free_mb))


def _preference(card: Card) -> tuple[float, float, int, int]:
    """Most free memory; among equals the idler card, then the first."""
    return (card.free_mb or 0.0, -(card.utilisation_percent or 0.0), -card.index, -(card.mig_index or 0))


def _unknown_memory(card: Card, min_free_mb: float) -> tuple[str, ...]:
    if card.free_mb is not None:
        return ()
    return (
        f"{card.label} ({card.name}) does not tell its free memory, "
        f"so that it has {min_free_mb:.0f} MB free was not checked.",
    )


def _would_fit(cards: Sequence[Card], min_free_mb: float, taken: Set[str]) -> bool:
    """Whether a card that a run of ours holds is large enough once it is given back."""
    held = [card for card in cards if card.uuid in taken]
    return any(card.total_mb is None or card.total_mb >= min_free_mb for card in held)


def _none_free(
    cards: Sequence[Card], min_free_mb: float, taken: Set[str], kernels: Kernels | None, *, wait: bool
) -> Refusal:
    return Refusal(
        code="no_gpu_free",
        message=f"No GPU has {min_free_mb:.0f} MB free.",
        evidence=_states(cards, taken, kernels),
        next_step="The run starts when another one gives its GPU back."
        if wait
        else "Wait until a GPU is free, lower the limit, or pin a GPU, which lifts the limit.",
        wait=wait,
    )


def _no_kernels(cards: Sequence[Card], taken: Set[str], kernels: Kernels | None) -> Refusal:
    return Refusal(
        code="unfitting_device",
        message="This host's torch has no kernels for any of its GPUs.",
        evidence=_states(cards, taken, kernels),
        next_step="Install a torch build for these GPUs, or train on the CPU.",
    )


def _states(cards: Sequence[Card], taken: Set[str], kernels: Kernels | None) -> str:
    return "; ".join(state_of(card, taken, kernels) for card in cards) + "."


def _pinned(
    cards: Sequence[Card], indices: Sequence[int], taken: Set[str], kernels: Kernels | None
) -> Choice | Refusal:
    chosen: list[Card] = []
    for index in indices:
        here = [card for card in cards if card.index == index]
        if not here:
            return _not_there(index, cards)
        free = [card for card in here if card.uuid not in taken]
        if not free:
            return _held(here[0])
        chosen.append(max(free, key=_preference))
    return _within_mig(chosen, kernels)


def _within_mig(chosen: Sequence[Card], kernels: Kernels | None) -> Choice:
    """CUDA gives a process no more than one MIG instance, and none beside a whole card."""
    kept = tuple(chosen)
    warnings = []
    instances = [card for card in chosen if card.mig_index is not None]
    if instances and len(chosen) > 1:
        kept = (instances[0],)
        warnings.append(f"A process can use one MIG instance and nothing beside it; it gets {kept[0].label}.")
    for card in kept:
        if card.problem or (kernels is not None and not kernels(card)):
            warnings.append(f"{state_of(card, kernels=kernels)}; it was pinned, so the run tries it.")
    return Choice(kept, tuple(warnings))


def _not_there(index: int, cards: Sequence[Card]) -> Refusal:
    known = ", ".join(str(number) for number in sorted({card.index for card in cards})) or "none"
    return Refusal(
        code="unfitting_device",
        message=f"There is no GPU {index} on this host.",
        evidence=f"Its GPUs are {known}.",
        next_step="Name one of its GPUs, or auto.",
    )


def _held(card: Card) -> Refusal:
    return Refusal(
        code="no_gpu_free",
        message=f"{card.label} ({card.name}) is {HELD}.",
        next_step="The run starts when the other one gives the GPU back.",
        wait=True,
    )
