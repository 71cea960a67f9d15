"""Which process is killed in which phase of an agent's run, and how the run has to end.

docs/faults.md shows the same table to users; a test holds the two together.
"""

from __future__ import annotations

from fault_matrix import AGAIN, KILLED, LOST, OFFERED_AGAIN, SUCCESS, Matrix

PHASES = (
    "on offer",
    "building",
    "fetching",
    "training",
    "predicting",
    "uploading",
    "delivering",
    "finishing",
)

# None: there is no such process in that phase. `on offer` it is another run that the victim works for. An
# agent that is killed has a successor in the same folder; a training machine that goes down takes agent,
# launcher and training worker with it, for good: its folder too, and the next agent knows nothing of the run.
# A server takes everything with it that it has started.
FOR_GOOD = "training machine, for good"
MATRIX: Matrix = {
    "agent": (SUCCESS,) * 8,
    "training worker": (SUCCESS, None, None, KILLED, KILLED, None, None, None),
    "launcher": (SUCCESS, None, None, KILLED, KILLED, None, None, None),
    "training machine": (SUCCESS, SUCCESS, SUCCESS, KILLED, KILLED, SUCCESS, SUCCESS, SUCCESS),
    FOR_GOOD: (SUCCESS, OFFERED_AGAIN, OFFERED_AGAIN, LOST, LOST, LOST, LOST, SUCCESS),
    "server": (SUCCESS, AGAIN, SUCCESS, SUCCESS, SUCCESS, SUCCESS, SUCCESS, SUCCESS),
    "controller": (SUCCESS, AGAIN, SUCCESS, SUCCESS, SUCCESS, SUCCESS, SUCCESS, SUCCESS),
}
