"""Which process is killed in which phase of a run, and how the run has to end.

docs/faults.md shows the same table to users; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass, field

PHASES = ("queued", "building", "running", "evaluating", "finishing")


@dataclass(frozen=True)
class End:
    """How a run ends: its state, its error code ("" for none), and the attempt that brought it there.

    `how` says what made a second attempt; two ends that differ in that alone are equal.
    """

    state: str
    error_code: str = ""
    attempt: int = 1
    how: str = field(default="", compare=False)


SUCCESS = End("success")
AGAIN = End("success", attempt=2, how="built again")
OFFERED_AGAIN = End("success", attempt=2, how="offered again")
KILLED = End("error", "killed")
LOST = End("error", "heartbeat_lost")

Phases = tuple[str, ...]
Matrix = dict[str, tuple[End | None, ...]]

# None: there is no such process in that phase. In `queued` it is another run that the victim works for;
# in `building` launcher and training worker are those of the spare that was started ahead.
MATRIX: Matrix = {
    "server": (SUCCESS, AGAIN, SUCCESS, SUCCESS, SUCCESS),
    "controller": (SUCCESS, AGAIN, SUCCESS, SUCCESS, SUCCESS),
    "Ray worker": (SUCCESS, SUCCESS, SUCCESS, SUCCESS, SUCCESS),
    "supervising task": (SUCCESS, None, SUCCESS, SUCCESS, None),
    "launcher": (SUCCESS, SUCCESS, KILLED, KILLED, None),
    "training worker": (SUCCESS, SUCCESS, KILLED, KILLED, None),
    "raylet": (SUCCESS, AGAIN, SUCCESS, SUCCESS, SUCCESS),
}


def cells(matrix: Matrix = MATRIX, phases: Phases = PHASES) -> list[tuple[str, str]]:
    """(phase, victim) of every cell that there is, phase by phase."""
    return [
        (phase, victim)
        for number, phase in enumerate(phases)
        for victim, ends in matrix.items()
        if ends[number] is not None
    ]


def expected(phase: str, victim: str, matrix: Matrix = MATRIX, phases: Phases = PHASES) -> End:
    """What the table says of a cell."""
    end = matrix[victim][phases.index(phase)]
    assert end is not None
    return end


def rows(matrix: Matrix = MATRIX, phases: Phases = PHASES) -> list[str]:
    """The table as lines of Markdown."""
    head = [" | ".join(("| killed", *phases)) + " |", "|---" * (len(phases) + 1) + "|"]
    return head + [" | ".join((f"| {victim}", *map(_words, ends))) + " |" for victim, ends in matrix.items()]


def _words(end: End | None) -> str:
    if end is None:
        return "–"
    if end.error_code:
        return f"`{end.state}`, `{end.error_code}`"
    how = f"{end.how}: " if end.how else ""
    return f"{how}`{end.state}`, {'first' if end.attempt == 1 else 'second'} attempt"
