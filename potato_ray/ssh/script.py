"""A POSIX sh script in a form that every login shell hands on unharmed, with marks around its output."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field

MAX_WORD_BYTES = 8000
"""The C shell takes words of up to 8191 bytes."""
MAX_COMMAND_BYTES = 32768
"""Far below the 128 KiB that a system takes as one argument."""


def _fresh_mark() -> str:
    return f"potato-ray-{secrets.token_hex(12)}"


@dataclass(frozen=True)
class MarkedScript:
    """A script with a line before it, by which its output is known from a start-up file's noise.

    `takes_input`: the script waits until it is told, in a line, that its mark was seen. Until then a
    start-up file that reads its input gets nothing that matters. `is_closed`: a line after the script says
    its exit code.
    """

    script: str
    takes_input: bool
    is_closed: bool = False
    mark: str = field(default_factory=_fresh_mark)
    end_mark: str = field(default_factory=_fresh_mark)

    @property
    def begin(self) -> bytes:
        """What comes before the output."""
        return f"{self.mark}\n".encode()

    @property
    def end(self) -> bytes:
        """What comes after it; the exit code follows, and the end of the line."""
        return f"\n{self.end_mark} ".encode()

    @property
    def go(self) -> bytes:
        """The line that the script waits for."""
        return self.begin

    def command(self) -> str:
        """One line for any login shell. Raises ValueError for a script that is too long for some."""
        text = base64.b64encode(self._text().encode()).decode()
        words = [text[start : start + MAX_WORD_BYTES] for start in range(0, len(text), MAX_WORD_BYTES)]
        command = f'exec /bin/sh -c \'eval "$(printf %s "$@" | base64 -d)"\' sh {" ".join(words)}'
        if len(command) > MAX_COMMAND_BYTES:
            raise ValueError(f"a command of {len(command)} bytes; {MAX_COMMAND_BYTES} are allowed")
        return command

    def _text(self) -> str:
        lines = ["set --", f"printf '\\n%s\\n' {self.mark} >&2", f"printf '\\n%s\\n' {self.mark}"]
        if self.takes_input:
            # sh reads its input byte by byte here, so that what follows the line is left to the script.
            lines += [f'while IFS= read -r pr_line && [ "$pr_line" != {self.mark} ]; do :; done']
        if not self.is_closed:
            return "\n".join([*lines, self.script])
        printing = f"printf '\\n%s %s\\n' {self.end_mark} \"$pr_code\""
        return "\n".join([*lines, "(", self.script, ")", "pr_code=$?", f"{printing} >&2", printing])
