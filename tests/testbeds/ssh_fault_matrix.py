"""How a run on a host ends when its link is cut for good, or a process that it needs is killed."""

from __future__ import annotations

from typing import Final

from fault_matrix import KILLED, LOST, SUCCESS, End, Matrix

UNREACHED: Final = End("error", "ssh_failed")
"""No agent has the run in hand yet."""

FOR_GOOD: Final[dict[str, End]] = {
    "connecting": UNREACHED,
    "code": UNREACHED,
    "packages": UNREACHED,
    "starting": UNREACHED,
    "bundle": LOST,
    "training": LOST,
    "predictions": LOST,
    "result": LOST,
    # The predictions were safe before; the model stays on the host.
    "artifacts": SUCCESS,
    "clearing": SUCCESS,
}
"""The link, by the phase in which it was cut."""

HELD_IN: Final = ("training", "predicting")
SESSION: Final = "sshd's session"
SSH: Final = "ssh"
KEEPER: Final = "keeper"
BOTH: Final = "ssh and keeper"
SUPERVISOR: Final = "supervising task"
AGENT: Final = "agent"
WORKER: Final = "worker"
LAUNCHER: Final = "launcher and worker"
HOST: Final = "host, rebooted"

MATRIX: Final[Matrix] = {
    SESSION: (SUCCESS, SUCCESS),
    SSH: (SUCCESS, SUCCESS),
    KEEPER: (SUCCESS, SUCCESS),
    BOTH: (SUCCESS, SUCCESS),
    SUPERVISOR: (SUCCESS, SUCCESS),
    AGENT: (SUCCESS, SUCCESS),
    WORKER: (KILLED, KILLED),
    LAUNCHER: (KILLED, KILLED),
    HOST: (KILLED, KILLED),
}
"""kill -9, by the phase in which the run was."""

_LOST: Final = "was lost and is made again"
TOLD: Final = {SESSION: _LOST, SSH: _LOST, KEEPER: _LOST, BOTH: _LOST, AGENT: "it is started again"}
"""What the run's log says of it, where the run goes on."""
