"""How to install what is missing into the interpreter that misses it: a plain pip may be another one's."""

from __future__ import annotations

import shlex
import sys

_PIP = "pip install "


def into_this_python(hint: str) -> str:
    """`pip install x` for the interpreter that runs this; any other hint as it stands."""
    if not hint.startswith(_PIP) or not sys.executable:
        return hint
    return f"{shlex.quote(sys.executable)} -m {hint}"
