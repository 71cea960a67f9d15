"""validation.acknowledge: warnings that somebody has read and accepts."""

from __future__ import annotations

from potato_ray.config.document import Document
from potato_ray.config.findings import Finding
from potato_ray.config.spelling import closest, shown

LEAST_CHARACTERS = 12
_KEY = "acknowledge"


def acknowledge(document: Document, findings: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Split off the warnings that an entry names: (what remains, what is acknowledged).

    An entry that can acknowledge nothing is itself a warning, which no entry can acknowledge.
    """
    entries = _usable_entries(document)
    warnings = [finding for finding in findings if finding.level == "warning"]
    matched = [w for w in warnings if any(entry in w.text for entry in entries.values())]
    for index, entry in entries.items():
        if not any(entry in warning.text for warning in warnings):
            message = f"no warning contains {shown(entry)}; take the entry out"
            document.warn(("validation", _KEY, index), message, "acknowledge_unused")
    return [finding for finding in findings if finding not in matched], matched


def _usable_entries(document: Document) -> dict[int, str]:
    """The entries that are long enough, by their index; the others become warnings."""
    given = document.at("validation", _KEY)
    if given is not None and not isinstance(given, list):
        document.warn(("validation", _KEY), f"must be a list, not {shown(given)}", "wrong_type")
    usable = {}
    for index, entry in enumerate(document.list("validation", _KEY)):
        if isinstance(entry, str) and len(entry) >= LEAST_CHARACTERS:
            usable[index] = entry
            continue
        message = (
            f"{shown(entry)} acknowledges nothing: it must be text of {LEAST_CHARACTERS} characters or more"
        )
        document.warn(("validation", _KEY, index), message, "acknowledge_too_short")
    _check_other_keys(document)
    return usable


def _check_other_keys(document: Document) -> None:
    for key in document.mapping("validation"):
        if key != _KEY and closest(key, [_KEY]):
            document.warn(("validation", key), "validation has no such key", "unknown_key", _KEY)
    block = document.at("validation")
    if block is not None and not isinstance(block, dict):
        document.warn(
            ("validation",), f"must be a mapping with the key {_KEY}, not {shown(block)}", "wrong_type"
        )
