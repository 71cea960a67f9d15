"""Shades of a cell by its share, and the ink that can be read on each."""

from __future__ import annotations

# From nearly paper to strong, in N_SHADES steps.
N_SHADES = 10
LIGHT_RAMP = ("#f3f6fb", "#0a3f9e")
DARK_RAMP = ("#22272e", "#a9c8ff")


def style() -> str:
    """CSS for the classes s0 to s10: the fill of their rect and the ink of their text, light and dark."""
    light = "\n".join(_rules(level, LIGHT_RAMP) for level in range(N_SHADES + 1))
    dark = "\n".join(_rules(level, DARK_RAMP) for level in range(N_SHADES + 1))
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


def _rules(level: int, ramp: tuple[str, str]) -> str:
    fill = shade(level, ramp)
    return (
        f".potato-picture .s{level} rect {{ fill: {fill}; }} "
        f".potato-picture .s{level} text {{ fill: {ink_on(fill)}; }}"
    )


def shade(level: int, ramp: tuple[str, str]) -> str:
    """The colour (#rrggbb) at step `level` of N_SHADES between the two ends."""
    low, high = (_channels(colour) for colour in ramp)
    mixed = (round(a + (b - a) * level / N_SHADES) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def ink_on(fill: str) -> str:
    """Black or white, whichever stands out more: at least 4.58:1 on any colour."""
    return max("#000000", "#ffffff", key=lambda ink: contrast(ink, fill))


def contrast(one: str, other: str) -> float:
    """The WCAG 2 contrast ratio of two #rrggbb colours, 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in _unit(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _unit(colour: str) -> list[float]:
    return [channel / 255 for channel in _channels(colour)]


def _channels(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
