"""The program that ssh starts on a host: a short command that looks for Python, and the rest over stdin.

    connection.start(host_script(python, host))    ─▶ its sentinel
    channel.send(host_input(request))              ─▶ lines of JSON (potato_ray.host.entry)

Everybody on that host can read the command; a request may hold what is not for them, so it comes over stdin.
"""

from __future__ import annotations

import json
import shlex
import zlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import potato_ray.host

VERSION = 1
_MODULES = ("talk", "remote_dir", "facts", "code_arrival", "entry")
"""In the order in which they build on each other."""
_FUTURE = "from __future__ import annotations"
_ADVICE = "Give the backend's `python` an interpreter of version 3.8 or later that is on that host."
_SIZE_DIGITS = 8

_SCRIPT = """\
p={python}
case $p in '~/'*) p=$HOME/${{p#'~/'}};; esac
if ! command -v "$p" >/dev/null 2>&1; then printf '%s\\n' {missing}; cat >/dev/null; exit 127; fi
exec "$p" -S -E -c {loader}
"""
# Whatever Python it is, it has to understand this much. A json.py in the home is not to be imported. Where it
# ends here, it still takes what is sent: whoever sends is to read why, and not to meet a broken pipe.
_LOADER = """\
import sys
sys.path[:]=[p for p in sys.path if p]
import os
if sys.version_info<(3,8):
 sys.stdout.write({too_old}.replace("VERSION",".".join(map(str,sys.version_info[:3])))+"\\n")
 sys.stdout.flush()
 while os.read(0,65536):pass
 sys.exit(1)
import signal,zlib
signal.alarm(120)
def take(n):
 d=b""
 while len(d)<n:
  p=os.read(0,n-len(d))
  if not p:sys.exit(1)
  d+=p
 return d
program=zlib.decompress(take(int(take({digits}))))
signal.alarm(0)
g={{"__name__":"entry"}}
exec(program,g)
sys.exit(g["main"]())
"""


def host_script(python: str, host: str) -> str:
    """POSIX sh text that starts the interpreter `python` (a `~/` in front is the home there), some 2 KB.

    `host` is how its messages name the host. What it then waits for is `host_input`.
    """
    missing = _error("python_missing", f"{python} was not found on {host}")
    too_old = _error("python_too_old", f"{python} on {host} is Python VERSION; 3.8 or later is needed.")
    loader = _LOADER.format(too_old=ascii(too_old), digits=_SIZE_DIGITS)
    return _SCRIPT.format(
        python=shlex.quote(python), missing=shlex.quote(missing), loader=shlex.quote(loader)
    )


def host_input(request: Mapping[str, Any]) -> bytes:
    """What goes over stdin first: the program and the request (potato_ray.host.entry)."""
    program = _program()
    line = json.dumps({"v": VERSION, **request}).encode("ascii") + b"\n"
    return f"{len(program):0{_SIZE_DIGITS}d}".encode("ascii") + program + line


def _error(code: str, message: str) -> str:
    return json.dumps({"error": {"code": code, "message": message, "evidence": "", "next_step": _ADVICE}})


@lru_cache(maxsize=1)
def _program() -> bytes:
    """The modules in one: each without the lines that import what already stands above it."""
    folder = Path(potato_ray.host.__file__).parent
    lines = (line for name in _MODULES for line in (folder / f"{name}.py").read_text("utf-8").splitlines())
    kept = (line for line in lines if not line.startswith((_FUTURE, "from potato_ray.host.")))
    return zlib.compress("\n".join([_FUTURE, *kept, ""]).encode("utf-8"), 9)
