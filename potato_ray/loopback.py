"""Whether an address leads no farther than this machine."""

from __future__ import annotations

import ipaddress


def is_this_machine(host: str) -> bool:
    """Whether the host of a URL is this machine's own name for itself, or an address of its loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
