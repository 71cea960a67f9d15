"""The environment that ssh gets: the user's, without our secrets and without ways to a prompt."""

from __future__ import annotations

from collections.abc import Mapping

_OURS = ("POTATO_", "RAY_", "HF_", "HUGGING_FACE_")
_PROMPTS = frozenset({"DISPLAY", "WAYLAND_DISPLAY", "SSH_ASKPASS"})


def ssh_environment(everything: Mapping[str, str]) -> dict[str, str]:
    """`everything` but for what is ours or would open a window.

    The rest stays, whatever it is: a ProxyCommand or a Match line of the user's may need any of it.
    """
    kept = {
        name: value
        for name, value in everything.items()
        if not name.startswith(_OURS) and name not in _PROMPTS
    }
    # A jump host is reached by an ssh of its own, which BatchMode does not reach.
    return {**kept, "SSH_ASKPASS_REQUIRE": "never"}
