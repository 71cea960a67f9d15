"""The OpenSSH client as it is used here: one master for each connection, and everything else as its channels.

    Connection ── Master ── keeper ── ssh -M -N          reads the user's ssh configuration, logs in
        ├── run, start, sftp  ── ssh -o ProxyCommand=false slave …   a channel: can never log in by itself
        └── forward           ── ssh -O forward

    Connection ── JoinedLogin ╌╌ SharedLogin ── Master …   a login that another process keeps for many
        └── more of them, where one has as many sessions as the host allows

What comes back is believed after a sentinel line alone, and every wait has a deadline.
"""

from potato_ray.ssh.answer import Answer
from potato_ray.ssh.channel import Channel
from potato_ray.ssh.connection import Connection
from potato_ray.ssh.destination import Destination
from potato_ray.ssh.failures import SshFailed, SshTimeout
from potato_ray.ssh.joined_login import JoinedLogin
from potato_ray.ssh.shared_login import SharedLogin

__all__ = [
    "Answer",
    "Channel",
    "Connection",
    "Destination",
    "JoinedLogin",
    "SharedLogin",
    "SshFailed",
    "SshTimeout",
]
