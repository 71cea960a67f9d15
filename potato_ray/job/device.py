"""Which device a trainer gets: what was asked for, where it is there, else the best that is.

Only for trainers that need torch; no other run imports it. torch comes in as an argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

_CUDA = re.compile(r"cuda(?::(\d+))?")
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)[a-z]?")


@dataclass(frozen=True)
class DeviceChoice:
    """`device` is cpu, mps, cuda or cuda:N, `description` names it for people, `warning` may be ""."""

    device: str
    description: str
    warning: str = ""


def choose_device(asked: str, torch: Any) -> DeviceChoice:
    """The device for a run that asked for `asked` (auto, cpu, mps, cuda, cuda:N)."""
    trouble = _no_kernels(torch)
    device = _granted(asked, torch, cuda=not trouble)
    got = device or _best(torch, cuda=not trouble)
    warning = ""
    if device is None and asked != "auto":
        reason = trouble or "it is not there"
        warning = f"The device {asked} was asked for, but {reason}; this run uses {got}."
    elif trouble and asked == "auto":
        warning = f"{trouble}; this run uses {got}."
    return DeviceChoice(got, _describe(got, torch), warning)


def _granted(asked: str, torch: Any, cuda: bool) -> str | None:
    """`asked` itself where it is there, None where it is not, and for auto."""
    if asked == "cpu" or (asked == "mps" and _has_mps(torch)):
        return asked
    match = _CUDA.fullmatch(asked)
    if match is None or not cuda or not torch.cuda.is_available():
        return None
    index = match.group(1)
    return asked if index is None or int(index) < torch.cuda.device_count() else None


def _best(torch: Any, cuda: bool) -> str:
    if cuda and torch.cuda.is_available():
        return "cuda"
    return "mps" if _has_mps(torch) else "cpu"


def _has_mps(torch: Any) -> bool:
    backends = getattr(torch, "backends", None)
    mps = getattr(backends, "mps", None)
    return mps is not None and bool(mps.is_available())


def _no_kernels(torch: Any) -> str:
    """A clause that says so when this torch was built for none of the visible cards, else ""."""
    if not torch.cuda.is_available():
        return ""
    built_for = list(torch.cuda.get_arch_list())
    cards = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    if not built_for or any(_runs_on(built_for, tuple(card)) for card in cards):
        return ""
    return "This host's torch has no kernels for any of its GPUs"


def _runs_on(built_for: list[str], card: tuple[int, ...]) -> bool:
    """Binary code (sm) runs on the same major version from its minor on, PTX (compute) on all later ones."""
    for architecture in built_for:
        match = _ARCHITECTURE.fullmatch(architecture)
        if match is None:
            return True  # ROCm and whatever comes: not ours to judge
        version = (int(match.group(2)), int(match.group(3)))
        same_major = version[0] == card[0]
        if version <= card and (same_major or match.group(1) == "compute"):
            return True
    return False


def _describe(device: str, torch: Any) -> str:
    if device.startswith("cuda"):
        index = int(device.partition(":")[2] or 0)
        return f"{device} ({torch.cuda.get_device_name(index)})"
    return "Apple Metal (mps)" if device == "mps" else "the CPU"
