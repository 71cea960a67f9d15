"""Numbers, times and lengths of time as the pages write them."""

from __future__ import annotations

from datetime import UTC, datetime


def duration(seconds: float | None) -> str:
    """A length of time: "0.4 s", "38 s", "2 min 05 s", "1 h 12 min", "2 d 4 h"; "" when there is none."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def number(value: object) -> str:
    """A figure with the digits that matter: 1,234 · 0.796 · 0.00012; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 else f"{value:.4g}"


def score(value: float) -> str:
    """A score with three decimals, also where it is whole (1.000); tiny and huge ones as `number` has them.

    What rounding in sums has left of a zero is one.
    """
    size = abs(value)
    return f"{value:.3f}" if 0.001 <= size < 1000 else "0.000" if size < 1e-9 else number(value)


def when(epoch_s: float | None, *, exact: bool = False) -> str:
    """A time for people, in UTC; pages put the local time in its place. "" when there is none.

    `exact`: with its seconds.
    """
    form = "%Y-%m-%d %H:%M:%S UTC" if exact else "%Y-%m-%d %H:%M UTC"
    return datetime.fromtimestamp(epoch_s, UTC).strftime(form) if epoch_s else ""


def iso_time(epoch_s: float | None) -> str:
    """A time for machines: 2026-02-03T04:05:06Z; "" when there is none."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if epoch_s else ""
