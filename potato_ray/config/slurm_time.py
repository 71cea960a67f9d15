"""SLURM's notation of a time limit."""

from __future__ import annotations

import re

FORMS = 'minutes, "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS" or "unlimited"'
UNLIMITED = float("inf")
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_UNITS = {
    (False, 1): (_MINUTE_S,),
    (False, 2): (_MINUTE_S, 1),
    (False, 3): (_HOUR_S, _MINUTE_S, 1),
    (True, 1): (_HOUR_S,),
    (True, 2): (_HOUR_S, _MINUTE_S),
    (True, 3): (_HOUR_S, _MINUTE_S, 1),
}
_TIME = re.compile(r"(?:(\d{1,10})-)?(\d{1,10}(?::\d{1,10}){0,2})?", re.ASCII)
_MOST_S = 2**31 - 60
"""SLURM counts seconds in 32 bits, and rounds up to minutes: of more it makes another time."""


def seconds_of(time: str) -> float:
    """The limit in seconds; a limit of 0, UNLIMITED and INFINITE ask for none. Raises ValueError.

    As sbatch reads it, but for what it takes and misreads: negative numbers, and more than it can count.
    """
    if time.upper() in ("UNLIMITED", "INFINITE"):
        return UNLIMITED
    match = _TIME.fullmatch(time)
    if match is None or not time:
        raise ValueError(f"must be a SLURM time ({FORMS})")
    days, clock = match.group(1), [int(part) for part in (match.group(2) or "0").split(":")]
    units = _UNITS[days is not None, len(clock)]
    seconds = int(days or 0) * _DAY_S + sum(part * unit for part, unit in zip(clock, units, strict=True))
    if seconds > _MOST_S:
        raise ValueError("must be a SLURM time of less than 68 years, or UNLIMITED")
    return float(seconds) or UNLIMITED
