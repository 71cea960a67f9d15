"""Which GPU of a host a run gets: the key `gpus` against what the host has.

auto       the card with the most free memory, of those that its torch has kernels for
"1" "0,1"  exactly these, however full they are
none       the CPU; so does auto on a host without any GPU
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field

from potato_ray.backends.base import Placement, Refusal
from potato_ray.backends.choice import Choice, Kernels, choose, parse_wanted
from potato_ray.backends.gpus import Card, Listing, slots_of
from potato_ray.backends.torch_build import TorchBuild


@dataclass(frozen=True)
class HostGpus:
    """The GPUs of a host, and the torch there that decides which of them can be used."""

    listing: Listing = field(default_factory=Listing)
    torch: TorchBuild | None = None

    @property
    def kernels(self) -> Kernels | None:
        """Whether that torch has kernels for a card; None where it is unknown."""
        return None if self.torch is None else self.torch.has_kernels_for


def place_on_host(
    name: str, host: str, gpus: str | int, found: HostGpus, *, taken: Set[str], min_free_mb: float
) -> Placement | Refusal:
    """The GPU of a run that can use one. `host` is what the step line names."""
    cards = found.listing.cards
    choice = choose(cards, parse_wanted(gpus), min_free_mb=min_free_mb, taken=taken, kernels=found.kernels)
    if isinstance(choice, Refusal):
        return choice
    if not choice.cards:
        return on_cpu(name, host, _why_no_gpu(gpus, found.listing))
    return _on_gpus(name, host, choice, cards)


def on_cpu(name: str, host: str, warnings: tuple[str, ...] = ()) -> Placement:
    """A placement on a host's CPU."""
    return Placement(name, "cpu", step=f"{name}: ssh to {host}, CPU", warnings=warnings, host=host)


def _on_gpus(name: str, host: str, choice: Choice, cards: tuple[Card, ...]) -> Placement:
    slots = slots_of(cards)
    what = "; ".join(f"{card.label}, {card.name}, {card.memory}" for card in choice.cards)
    return Placement(
        name,
        "cuda",
        gpu_uuids=tuple(card.uuid for card in choice.cards),
        slots=tuple(slots[card.uuid] for card in choice.cards if card.uuid in slots),
        step=f"{name}: ssh to {host}, CUDA ({what})",
        warnings=choice.warnings,
        host=host,
    )


def _why_no_gpu(gpus: str | int, listing: Listing) -> tuple[str, ...]:
    """A warning where a GPU could be expected and cannot be used; none where there simply is no GPU."""
    if str(gpus).strip() == "none" or not (listing.installed and listing.problem):
        return ()
    return (f"No GPU of this host can be used ({listing.problem}); training on the CPU.",)
