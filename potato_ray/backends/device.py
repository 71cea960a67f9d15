"""Which device a local run gets: model_training.device against what this machine has.

auto       CUDA (the card with the most free memory), then Apple mps, then the CPU
cuda:N     card N of nvidia-smi's order; a device that is not there falls back with a warning
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from potato_ray.backends.base import Placement, Refusal
from potato_ray.backends.choice import DEFAULT_MIN_FREE_MB, Choice, Wanted, choose, parse_wanted
from potato_ray.backends.gpus import Card, Listing, slots_of
from potato_ray.backends.torch_build import TorchBuild

DEVICE_KEY = "model_training.device"


@dataclass(frozen=True)
class Machine:
    """What of this machine decides about the device. `torch` None: unknown, or not installed."""

    listing: Listing = field(default_factory=Listing)
    has_mps: bool = False
    torch: TorchBuild | None = None

    @property
    def cards(self) -> tuple[Card, ...]:
        return self.listing.cards

    @property
    def kernels(self) -> Callable[[Card], bool] | None:
        return None if self.torch is None else self.torch.has_kernels_for

    @property
    def why_no_cuda(self) -> str:
        """Why CUDA cannot be had here at all, or ""."""
        if not self.cards:
            problem = self.listing.problem
            return "this machine has no CUDA GPU to use" + (f" ({problem})" if problem else "")
        if self.torch is not None and not self.torch.cuda:
            return f"torch {self.torch.version} here was built without CUDA"
        return ""


def machine_has_mps() -> bool:
    """Whether this is a Mac with Apple silicon."""
    return platform.system() == "Darwin" and platform.machine() == "arm64"


def visible(cards: Sequence[Card], setting: str | None) -> tuple[Card, ...]:
    """The cards that CUDA_VISIBLE_DEVICES leaves to this process; None: all of them.

    Numbers are read in PCI order, as with CUDA_DEVICE_ORDER=PCI_BUS_ID; UUIDs may be cut short.
    """
    if setting is None:
        return tuple(cards)
    names = [name.strip() for name in setting.split(",") if name.strip()]
    return tuple(card for card in cards if any(_names(name, card) for name in names))


def _names(name: str, card: Card) -> bool:
    return name == str(card.index) if name.lstrip("-").isdigit() else card.uuid.startswith(name)


def visible_here(listing: Listing) -> Listing:
    """`listing` without the cards that this process's environment hides."""
    left = visible(listing.cards, os.environ.get("CUDA_VISIBLE_DEVICES"))
    if left or not listing.cards:
        return replace(listing, cards=left)
    return replace(listing, cards=(), problem="CUDA_VISIBLE_DEVICES hides them all")


def place_local(
    name: str,
    device: str,
    machine: Machine,
    *,
    taken: Set[str] = frozenset(),
    min_free_mb: float = DEFAULT_MIN_FREE_MB,
) -> Placement | Refusal:
    """The device of a run that can use a GPU, when `model_training.device` is `device`."""
    if device == "cpu":
        return cpu(name)
    if device == "mps" and machine.has_mps:
        return _mps(name)
    if machine.why_no_cuda:
        return _without_cuda(name, device, machine)
    wanted, warnings = _wanted(device, machine)
    choice = choose(machine.cards, wanted, min_free_mb=min_free_mb, taken=taken, kernels=machine.kernels)
    if isinstance(choice, Refusal):
        return _local_advice(choice)
    return _cuda(name, choice, machine, warnings)


def cpu(name: str, warnings: tuple[str, ...] = ()) -> Placement:
    """A placement on the CPU."""
    return Placement(name, "cpu", step=f"{name}: this machine, CPU", warnings=warnings)


def _mps(name: str, warnings: tuple[str, ...] = ()) -> Placement:
    return Placement(name, "mps", step=f"{name}: this machine, Apple Metal (mps)", warnings=warnings)


def _cuda(name: str, choice: Choice, machine: Machine, warnings: tuple[str, ...]) -> Placement:
    slots = slots_of(machine.cards)
    what = "; ".join(_in_brackets(card) for card in choice.cards)
    return Placement(
        name,
        "cuda",
        gpu_uuids=tuple(card.uuid for card in choice.cards),
        slots=tuple(slots[card.uuid] for card in choice.cards if card.uuid in slots),
        step=f"{name}: this machine, CUDA ({what})",
        warnings=(*warnings, *choice.warnings),
    )


def _in_brackets(card: Card) -> str:
    free = "free memory unknown" if card.free_mb is None else f"{card.free_mb:.0f} MB free"
    return f"{card.name}, {card.label}, {free}"


def _without_cuda(name: str, device: str, machine: Machine) -> Placement:
    instead = _mps if machine.has_mps else cpu
    if device == "auto":
        # Saying nothing is right where there simply is no GPU, and wrong where one cannot be used.
        expected = bool(machine.cards or (machine.listing.installed and machine.listing.problem))
        return instead(name, (_fallback(device, machine.why_no_cuda, machine),) if expected else ())
    reason = "this machine has no Apple Metal" if device == "mps" else machine.why_no_cuda
    return instead(name, (_fallback(device, reason, machine),))


def _fallback(device: str, reason: str, machine: Machine) -> str:
    instead = "Apple Metal (mps)" if machine.has_mps else "the CPU"
    return f"{DEVICE_KEY} is {device}, but {reason}; training on {instead}."


def _wanted(device: str, machine: Machine) -> tuple[Wanted, tuple[str, ...]]:
    """What to choose, and the warnings when it is not what `device` asks for."""
    if device == "mps":
        return "auto", (f"{DEVICE_KEY} is mps, but this machine has no Apple Metal; training on CUDA.",)
    if not device.startswith("cuda:"):
        return "auto", ()
    wanted = parse_wanted(device.removeprefix("cuda:"))
    known = sorted({card.index for card in machine.cards})
    if isinstance(wanted, tuple) and not set(wanted) <= set(known):
        listed = ", ".join(str(index) for index in known)
        return "auto", (
            f"{DEVICE_KEY} is {device}, but the GPUs of this machine are {listed}; "
            "training on the one with the most free memory.",
        )
    return wanted, ()


def _local_advice(refusal: Refusal) -> Refusal:
    """The same refusal with the way out that a local run has."""
    if refusal.wait:
        return refusal
    if refusal.code == "unfitting_device":
        step = f"Install a torch build for these GPUs, or set {DEVICE_KEY} to cpu."
    else:
        step = f"Wait until a GPU is free, pin one with {DEVICE_KEY}: cuda:N, or set it to cpu."
    return replace(refusal, next_step=step)
