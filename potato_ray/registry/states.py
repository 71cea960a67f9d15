"""The one table of a run's states. Nothing else decides which change is allowed.

queued → building → (offered) → running → evaluating → finishing → success · error · cancelled · interrupted
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class State(StrEnum):
    """A run's state; docs/registry.md, "States, slots and GPUs"."""

    QUEUED = "queued"
    BUILDING = "building"
    OFFERED = "offered"
    RUNNING = "running"
    EVALUATING = "evaluating"
    FINISHING = "finishing"
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


ENDED = frozenset({State.SUCCESS, State.ERROR, State.CANCELLED, State.INTERRUPTED})
ACTIVE = frozenset({State.BUILDING, State.RUNNING, State.EVALUATING, State.FINISHING})
"""States in which a run holds a slot of max_concurrent_runs."""

WAITING = frozenset({State.QUEUED, State.OFFERED})
"""States in which a run has not begun, or is to begin again."""

_STOPS = frozenset({State.ERROR, State.CANCELLED, State.INTERRUPTED})

TRANSITIONS: dict[State, frozenset[State]] = {
    # interrupted: the configuration is gone or a restart found no process. error: refused when dequeued.
    State.QUEUED: frozenset({State.BUILDING, State.OFFERED}) | _STOPS,
    # queued: a build that a restart cut off is built again.
    State.BUILDING: frozenset({State.QUEUED, State.RUNNING}) | _STOPS,
    State.OFFERED: frozenset({State.QUEUED, State.BUILDING, State.RUNNING}) | _STOPS,
    # offered: the agent that took it was lost before its worker had started.
    State.RUNNING: frozenset({State.OFFERED, State.EVALUATING, State.FINISHING}) | _STOPS,
    State.EVALUATING: frozenset({State.FINISHING}) | _STOPS,
    State.FINISHING: frozenset({State.SUCCESS}) | _STOPS,
    State.SUCCESS: frozenset(),
    State.ERROR: frozenset(),
    State.CANCELLED: frozenset(),
    State.INTERRUPTED: frozenset(),
}


def listed(states: Iterable[State]) -> str:
    """The states as SQL lists them behind IN: 'error', 'success'."""
    return ", ".join(f"'{state.value}'" for state in sorted(states))


def may_change(old: State, new: State) -> bool:
    """Whether a run in state `old` may become `new`."""
    return new in TRANSITIONS[old]
