"""Names of an archive's members: which of them can be files inside one folder on any of our machines."""

from __future__ import annotations

LONGEST_BYTES = 1024
LONGEST_PART_BYTES = 255
DEEPEST = 32
_SHOWN_CHARS = 120


def usable_path(name: str) -> bytes:
    """The path under the folder, b"" for the folder itself. Raises ValueError with the rest of a sentence."""
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("is not in UTF-8") from None
    if raw.startswith(b"/"):
        raise ValueError("begins at the root")
    if len(raw) > LONGEST_BYTES:
        raise ValueError("is too long")
    if any(byte < 0x20 or byte == 0x7F for byte in raw):
        raise ValueError("holds control characters")
    parts = [part for part in raw.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        raise ValueError("leads out of its folder")
    if len(parts) > DEEPEST or any(len(part) > LONGEST_PART_BYTES for part in parts):
        raise ValueError("is too deep, or a part of it too long")
    return b"/".join(parts)


def shown(name: str) -> str:
    """The name in quotes, as a message can hold it."""
    text = ascii(name) if not name.isprintable() else f"'{name}'"
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"
