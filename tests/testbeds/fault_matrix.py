"""Which process is killed in which phase of a run, and how the run has to end.

docs/faults.md shows the same table to users; a test holds the two together.
"""

from __future__ import annotations

from dataclasses import dataclass

PHASES = ("queued", "building", "running", "evaluating", "finishing")


@dataclass(frozen=True)
class End:
    """How a run ends: its state, its error code ("" for none), and the attempt that brought it there."""

    state: str
    error_code: str = ""
    attempt: int = 1


SUCCESS = End("success")
AGAIN = End("success", attempt=2)
KILLED = End("error", "killed")

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
WORDS = {
    SUCCESS: "`success`, first attempt",
    AGAIN: "built again: `success`, second attempt",
    KILLED: "`error`, `killed`",
    None: "–",
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
    return head + [
        " | ".join((f"| {victim}", *(WORDS[end] for end in ends))) + " |" for victim, ends in matrix.items()
    ]
