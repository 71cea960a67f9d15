"""The command lines of ssh: that of a master, and those of what goes through it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from potato_ray.ssh.destination import Destination

SLAVE = "slave"
"""The host of every channel: a name that is never looked up, since a channel cannot connect."""
UNANSWERED_QUESTIONS = 3


def master_command(
    ssh: str, destination: Destination, control_path: str, extra: Sequence[str] = ()
) -> list[str]:
    """The master: stays in the foreground, runs nothing, forwards nothing until it is asked to."""
    neutralised = (
        "BatchMode=yes",
        f"ControlPath={control_path}",
        "ControlPersist=no",
        "ClearAllForwardings=yes",
        "RemoteCommand=none",
        "PermitLocalCommand=no",
        "RequestTTY=no",
        # A user's QUIET would take away the words that say why a connection failed.
        "LogLevel=INFO",
        f"ConnectTimeout={max(1, math.ceil(destination.connect_timeout_s))}",
        f"ServerAliveInterval={destination.alive_interval_s}",
        f"ServerAliveCountMax={UNANSWERED_QUESTIONS}",
    )
    options = [part for option in neutralised for part in ("-o", option)]
    # -M alone: together with ControlMaster=yes it would mean "ask".
    return [ssh, "-M", "-N", "-T", *extra, *destination.login_arguments, *options, "--", destination.host]


def through_master(ssh: str, control_path: str) -> list[str]:
    """How all other calls of ssh begin: without the user's configuration, and unable to log in anew."""
    return [
        ssh,
        *("-F", "/dev/null"),
        "-T",
        *("-o", "BatchMode=yes"),
        *("-o", f"ControlPath={control_path}"),
        *("-o", "ControlMaster=no"),
        # Without it a channel whose master has gone would quietly make a connection of its own.
        *("-o", "ProxyCommand=false"),
    ]


def command_channel(ssh: str, control_path: str, command: str) -> list[str]:
    """A channel in which the host's login shell gets `command`."""
    return [*through_master(ssh, control_path), SLAVE, command]


def sftp_channel(ssh: str, control_path: str) -> list[str]:
    """A channel that speaks SFTP."""
    return [*through_master(ssh, control_path), "-s", SLAVE, "sftp"]


def order(ssh: str, control_path: str, name: str, *arguments: str) -> list[str]:
    """An order to the master itself: `forward`, `cancel`, `exit`."""
    return [*through_master(ssh, control_path), "-O", name, *arguments, SLAVE]
