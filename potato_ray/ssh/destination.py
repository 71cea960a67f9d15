"""Where ssh shall go, as the configuration names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from potato_ray.errors import ConfigInvalid

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f]")


@dataclass(frozen=True)
class Destination:
    """A host by any name or alias that ssh takes; what is None is left to ssh and its configuration.

    `connect_timeout_s` is for the host's first answer; the login may take as long again.
    `alive_interval_s`: a host that leaves three questions, so many seconds apart, unanswered is lost.
    Raises ConfigInvalid for a host or a user that ssh could take for an option.
    """

    host: str
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    connect_timeout_s: float = 20.0
    alive_interval_s: int = 15

    def __post_init__(self) -> None:
        for key, value in (("host", self.host), ("user", self.user)):
            if value is not None and _is_unfit(value):
                raise ConfigInvalid(
                    f"{value!r} cannot be the {key} of an ssh connection.",
                    evidence="It is empty, begins with '-', or has a space or a control character in it.",
                    next_step=f"Set {key} to what you write after `ssh` on the command line.",
                )

    @property
    def login_arguments(self) -> list[str]:
        """`-l`, `-p` and `-i`, as far as they are set."""
        arguments = []
        if self.user is not None:
            arguments += ["-l", self.user]
        if self.port is not None:
            arguments += ["-p", str(self.port)]
        if self.identity_file is not None:
            arguments += ["-i", str(Path(self.identity_file).expanduser())]
        return arguments


def _is_unfit(value: str) -> bool:
    return not value or value.startswith("-") or _UNFIT.search(value) is not None
