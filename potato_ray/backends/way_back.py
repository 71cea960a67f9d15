"""Whether an agent on a host could reach the server: a socket is forwarded for a moment, to nowhere."""

from __future__ import annotations

import shlex
from typing import Final

from potato_ray.backends.base import Check
from potato_ray.errors import PotatoRayError
from potato_ray.ssh import Connection

ASK_S: Final = 30.0
TOOLS: Final = 'PATH="$PATH:/usr/bin:/bin"'
"""A run needs no more of the PATH there than Python; nor does the look."""
MAKE: Final = f"{TOOLS}; mktemp -d /tmp/potato-XXXXXXXX"
"""As an agent makes the folder of its socket (potato_ray.host.run_folder)."""
NOWHERE: Final = "/dev/null"
"""The end here: it is opened when somebody connects over there, and nobody does."""


def look_for_way_back(line: Connection) -> Check:
    """A run fails on a host that refuses this, however good everything else there is. Raises SshFailed."""
    made = line.run(MAKE, timeout_s=ASK_S)
    folder = made.text.strip()
    if made.code or not folder:
        words = f"no folder can be made in /tmp there: {made.err.strip()}"
        return Check("socket", ok=False, message=words, next_step="Free some space in /tmp there.")
    try:
        line.forward(f"{folder}/s", NOWHERE)
        line.cancel_forward(f"{folder}/s", NOWHERE)
    except PotatoRayError as refused:
        return Check("socket", ok=False, message=refused.message, next_step=refused.next_step)
    finally:
        line.run(f"{TOOLS}; rm -rf {shlex.quote(folder)}", timeout_s=ASK_S)
    return Check("socket", ok=True, message="a socket for the agent can be forwarded to the server")
