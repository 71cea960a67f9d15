"""MIG instances: the parts into which a GPU can be cut. A process can use at most one of them.

Their UUIDs are in `nvidia-smi -L`, their memory in `nvidia-smi -q -x`, by card and instance number;
the card's own memory says nothing of theirs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.etree import ElementTree

_CARD = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[^)]+)\)")
_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[^)]+)\)")
_MIB = re.compile(r"(\d+) MiB")


@dataclass(frozen=True)
class Instance:
    """One MIG instance; memory in MiB, None: unknown."""

    card_uuid: str
    index: int
    uuid: str
    profile: str
    total_mb: float | None = None
    free_mb: float | None = None


def parse_instances(listed: str, detailed: str) -> list[Instance]:
    """The instances in `listed` (of -L), with their memory from `detailed` (of -q -x)."""
    memory = _memory(detailed)
    instances = []
    card_uuid = ""
    for line in listed.splitlines():
        if card := _CARD.match(line):
            card_uuid = card.group(2)
        elif found := _INSTANCE.match(line):
            profile, index, uuid = found.group(1), int(found.group(2)), found.group(3)
            total_mb, free_mb = memory.get((card_uuid, index), (None, None))
            instances.append(Instance(card_uuid, index, uuid, profile, total_mb, free_mb))
    return instances


def _memory(detailed: str) -> dict[tuple[str, int], tuple[float | None, float | None]]:
    """(card, instance number) → (total, free)."""
    try:
        # Text of the machine's own nvidia-smi; expat stops entity bombs, and no DTD is fetched.
        root = ElementTree.fromstring(detailed)  # noqa: S314
    except ElementTree.ParseError:
        return {}
    return {
        (card.findtext("uuid", "").strip(), int(instance.findtext("index", "-1"))): (
            _mib(instance.findtext("fb_memory_usage/total", "")),
            _mib(instance.findtext("fb_memory_usage/free", "")),
        )
        for card in root.iter("gpu")
        for instance in card.iter("mig_device")
        if instance.findtext("index", "").strip().isdigit()
    }


def _mib(text: str) -> float | None:
    found = _MIB.search(text)
    return float(found.group(1)) if found else None
