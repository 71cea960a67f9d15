"""The GPUs of a machine as nvidia-smi tells of them. Unknown is a value; nothing here raises.

    list_cards ── run nvidia-smi, with fewer fields where the driver is older ──▶ Listing
    parse_cards   the text of one answer ──▶ cards (pure)

Memory is in MiB. A card whose MIG mode is on is replaced by its MIG instances (mig.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from potato_ray.backends import mig
from potato_ray.backends.smi import NOT_FOUND, RunSmi, run_nvidia_smi
from potato_ray.job.command import Answer

FIELDS = (
    "index",
    "uuid",
    "name",
    "memory.total",
    "memory.used",
    "memory.free",
    "utilization.gpu",
    "compute_cap",
    "mig.mode.current",
)
_FEWER_FIELDS = (FIELDS[:7], FIELDS[:6])
"""What older drivers know: first without compute_cap and MIG, then without utilisation."""

LIST_TIMEOUT_S = 10.0
MAX_SLOTS = 16

_BROKEN = re.compile(r"error|lost|reset|ERR!|fallen off", re.IGNORECASE)
_NO_DEVICES = "no devices were found"


@dataclass(frozen=True)
class Card:
    """One GPU, or one MIG instance of one; None and "" mean unknown.

    `index` is nvidia-smi's, in PCI order (a MIG instance has its card's), `problem` says why the card
    cannot be used at all. `mig_index` numbers the MIG instances of a card.
    """

    index: int
    uuid: str
    name: str
    total_mb: float | None = None
    free_mb: float | None = None
    utilisation_percent: float | None = None
    compute_capability: str = ""
    problem: str = ""
    mig_on: bool = False
    mig_index: int | None = None

    @property
    def label(self) -> str:
        """Such as "GPU 0", or "GPU 0 MIG 1"."""
        return f"GPU {self.index}" + ("" if self.mig_index is None else f" MIG {self.mig_index}")

    @property
    def memory(self) -> str:
        """Such as "39000 of 40960 MB free"."""
        if self.free_mb is None:
            return "free memory unknown"
        of = "" if self.total_mb is None else f" of {self.total_mb:.0f}"
        return f"{self.free_mb:.0f}{of} MB free"


@dataclass(frozen=True)
class Listing:
    """The cards of a machine. `problem` is what nvidia-smi said instead of, or beside, a list."""

    cards: tuple[Card, ...] = ()
    problem: str = ""
    installed: bool = True


def list_cards(run_smi: RunSmi = run_nvidia_smi, timeout_s: float = LIST_TIMEOUT_S) -> Listing:
    """Ask nvidia-smi for the cards; each of at most five calls takes at most `timeout_s`."""
    answer, fields = _query(run_smi, timeout_s)
    if answer.code is None:
        return Listing(problem=answer.text, installed=answer.text != NOT_FOUND)
    cards = parse_cards(answer.text, fields)
    problem = "" if cards and answer.code == 0 else _problem_in(answer, fields)
    if any(card.mig_on for card in cards):
        cards = _with_instances(cards, run_smi, timeout_s)
    return Listing(tuple(cards), problem)


def parse_cards(text: str, fields: Sequence[str] = FIELDS) -> list[Card]:
    """The cards in a CSV answer without header and units; lines that are no card are left out."""
    cards = (_parse_line(line, fields) for line in text.splitlines())
    return sorted((card for card in cards if card is not None), key=lambda card: card.index)


def slots_of(cards: Sequence[Card]) -> dict[str, int]:
    """Card → its slot, 0 to 15, in PCI order; cards beyond the sixteenth have none."""
    ordered = sorted(cards, key=lambda card: (card.index, card.mig_index or 0))
    return {card.uuid: slot for slot, card in enumerate(ordered[:MAX_SLOTS])}


def _query(run_smi: RunSmi, timeout_s: float) -> tuple[Answer, Sequence[str]]:
    for fields in (FIELDS, *_FEWER_FIELDS):
        answer = run_smi([f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"], timeout_s)
        if "is not a valid field" not in answer.text:
            break
    return answer, fields


def _problem_in(answer: Answer, fields: Sequence[str]) -> str:
    """What nvidia-smi said beside the cards, on one line; "" for a driver without any device."""
    lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
    said = [line for line in lines if _parse_line(line, fields) is None]
    if any(_NO_DEVICES in line.lower() for line in said):
        return ""
    return " ".join(said) or (
        f"nvidia-smi ended with code {answer.code} and said nothing" if answer.code else ""
    )


def _parse_line(line: str, fields: Sequence[str]) -> Card | None:
    values = _split(line, fields)
    if values is None or not values["index"].isdigit() or not values["uuid"].startswith(("GPU-", "MIG-")):
        return None
    total, used, free = (_number(values[f"memory.{part}"]) for part in ("total", "used", "free"))
    if free is None and total is not None and used is not None:
        free = total - used
    capability = values.get("compute_cap", "")
    return Card(
        index=int(values["index"]),
        uuid=values["uuid"],
        name=values["name"] or "unknown",
        total_mb=total,
        free_mb=free,
        utilisation_percent=_number(values.get("utilization.gpu", "")),
        compute_capability=capability if re.fullmatch(r"\d+\.\d+", capability) else "",
        problem=_breakage(values),
        mig_on=values.get("mig.mode.current", "") == "Enabled",
    )


def _split(line: str, fields: Sequence[str]) -> dict[str, str] | None:
    """The line's values by field. The name is not quoted, so commas beyond the fields are its own."""
    parts = [part.strip() for part in line.split(",")]
    extra = len(parts) - len(fields)
    if extra < 0:
        return None
    name = fields.index("name")
    parts[name : name + extra + 1] = [", ".join(parts[name : name + extra + 1])]
    return dict(zip(fields, parts, strict=True))


def _number(text: str) -> float | None:
    """The number, or None for "[N/A]", "[Not Supported]", "[Insufficient Permissions]" and the like."""
    return float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else None


def _breakage(values: dict[str, str]) -> str:
    """Why the card is broken, when a memory value says so: "Unknown Error", "GPU is lost", ..."""
    for part in ("total", "used", "free"):
        value = values[f"memory.{part}"]
        if _BROKEN.search(value):
            return value.strip("[]")
    return ""


def _with_instances(cards: Sequence[Card], run_smi: RunSmi, timeout_s: float) -> list[Card]:
    listed = run_smi(["-L"], timeout_s).text
    detailed = run_smi(["-q", "-x"], timeout_s).text
    instances = mig.parse_instances(listed, detailed)
    usable: list[Card] = []
    for card in cards:
        usable.extend(_instances_of(card, instances) if card.mig_on else [card])
    return usable


def _instances_of(card: Card, instances: Sequence[mig.Instance]) -> list[Card]:
    """One card for each MIG instance; the card itself, unusable, when it has none."""
    found = [
        replace(
            card,
            uuid=instance.uuid,
            name=f"{card.name} MIG {instance.profile}",
            total_mb=instance.total_mb,
            free_mb=instance.free_mb,
            utilisation_percent=None,
            problem="",
            mig_index=instance.index,
        )
        for instance in instances
        if instance.card_uuid == card.uuid
    ]
    return found or [replace(card, problem=card.problem or "MIG is on, but the card has no MIG instance")]
