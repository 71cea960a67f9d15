"""The script that starts a launcher, a worker or a spare launcher: start.py ROLE [ARGUMENT...].

A script and not `python -m`, which would put the working directory (the job folder, full of files that
somebody else made) in front of sys.path. The folder that holds this package is added instead, so that
the code runs wherever it was copied to, without installation.
"""

from __future__ import annotations

import sys

ROLES = ("launcher", "worker", "spare_launcher")


def code_root(script: str) -> str:
    """The folder that holds the potato_ray package of this very file."""
    return script.rsplit("/", 3)[0] or "/"


def use_own_code(script: str) -> None:
    """Make this package importable, and the folder of this script not (its `spec` would shadow others)."""
    beside = script.rsplit("/", 1)[0]
    sys.path[:] = [entry for entry in sys.path if entry not in ("", ".", beside)]
    root = code_root(script)
    if root not in sys.path:
        sys.path.insert(0, root)


def command(python: str, role: str, *arguments: str, bare: bool = False, script: str = __file__) -> list[str]:
    """The command line that starts `role`. `bare`: without site-packages, for what needs none; faster.

    `script` is this file, in the copy of the code that is to run.
    """
    return [python, *(["-S", "-E"] if bare else []), script, role, *arguments]


if __name__ == "__main__":
    use_own_code(__file__)
    import importlib

    if len(sys.argv) < 2 or sys.argv[1] not in ROLES:
        sys.exit("usage: start.py {} ARGUMENT...".format("|".join(ROLES)))
    sys.exit(importlib.import_module("potato_ray.job." + sys.argv[1]).main(sys.argv[2:]))
