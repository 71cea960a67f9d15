"""Reverse forwards of unix sockets: how they are asked for, and why a host refuses them."""

from __future__ import annotations

import re

from potato_ray.errors import PotatoRayError
from potato_ray.ssh.failures import SshFailed, failed, quotable
from potato_ray.ssh.login import Login
from potato_ray.ssh.master import Master

MAX_PATH_BYTES = 107
_REASON = re.compile(r"^debug1: Remote: (.*)$", re.MULTILINE)
_DISABLED = re.compile(r"disabled|refused|prohibited|no-port-forwarding|not permitted", re.IGNORECASE)
_WORDS_S = 1.0


def specification(host: str, remote_socket: str, local_socket: str) -> str:
    """The argument of -R. Raises SshFailed for a path that no socket can have."""
    for path in (remote_socket, local_socket):
        if not path.startswith("/") or ":" in path or len(path.encode()) > MAX_PATH_BYTES:
            raise failed(
                host,
                "The path of a socket cannot be used",
                f"(not asked) {path}",
                f"Use a whole path of at most {MAX_PATH_BYTES} bytes without a colon.",
            )
    return f"{remote_socket}:{local_socket}"


def refusal(master: Login, wanted: str, words: str) -> SshFailed:
    """The error for a forward that was refused. ssh gives the reason at -v only, so it is tried once more."""
    host = master.destination.host
    reasons = _reasons_at_second_try(master, wanted)
    evidence = quotable("\n".join([words, *reasons]))
    if any(_DISABLED.search(reason) for reason in reasons):
        return failed(
            host,
            "It refuses to forward a unix socket",
            evidence,
            f"Ask the administrator of {host} for `AllowStreamLocalForwarding yes`, `AllowTcpForwarding yes` "
            "and no `DisableForwarding` in sshd_config; the key's line in authorized_keys must have neither "
            "`restrict` nor `no-port-forwarding`.",
        )
    return failed(
        host,
        "The forwarded socket could not be made there",
        evidence,
        f"Look whether {wanted.partition(':')[0]} is there already, and whether its folder is there and can "
        "be written to.",
    )


def _reasons_at_second_try(master: Login, wanted: str) -> list[str]:
    try:
        second = Master(master.destination, extra=["-v"])
    except PotatoRayError:
        return []
    try:
        code, _ = second.order("forward", "-R", wanted)
        if not code:
            second.order("cancel", "-R", wanted)
        second.order("exit")
        return _REASON.findall(second.words)
    finally:
        second.close()
