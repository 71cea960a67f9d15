"""job.sh: what SLURM runs on the compute node."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from potato_ray.agent.slurm.keys import SlurmKeys

SCRIPT, OUTPUT = "job.sh", "slurm.out"
"""Their names in the job folder; SLURM's own words, and those of the prelude, go to the second."""

_DIRECTIVE = "#SBATCH "
_HEAD = """\
#!/bin/bash
{directives}
"""
_ENV = """
# The backend's env, before its prelude: what a module puts in front of PATH has to stay there.
{exports}
"""
# A line that fails does not end the job, as in any batch script; it is noted, for the case that the job
# does not get far. Within a file that a line reads (BASH_SOURCE is longer), failures are its own affair.
_WATCHED = """
potato_ray_noted() {{
    local line=$(($2 - {before}))
    [ "${{#BASH_SOURCE[@]}}" -gt 2 ] || echo "potato-ray: line $line of the prelude failed with code $1" >&2
}}
trap 'potato_ray_noted "$?" "$LINENO"' ERR
trap 'echo "potato-ray: the prelude ended the job with code $?" >&2' EXIT
"""
_UNWATCHED = "trap - ERR EXIT\n"
_TAIL = """
# exec: the signals that SLURM sends before it kills reach this process alone, not its children.
exec {command}
"""
_CLUSTER = re.compile(r"(?:--clusters?=|-M)(.+)")
_CLUSTER_FLAGS = ("--clusters", "--cluster", "-M")
_CONTROL = re.compile(r"[\x01-\x1f\x7f]")
_PLAIN = re.compile(r"[\w./+@:=,-]+", re.ASCII)


def job_script(keys: SlurmKeys, name: str, folder: Path, code: Path, python: str) -> str:
    """The script of the job `name`: it runs the launcher of the job folder `folder` by the code below `code`.

    `python` is used where the keys name no job_python. The script holds the backend's env: its file has to
    be private.
    """
    head = _HEAD.format(directives="\n".join(_DIRECTIVE + flag for flag in _flags(keys, name, folder)))
    if keys.env:
        exports = (f"export {key}={_literal(value)}" for key, value in keys.env.items())
        head += _ENV.format(exports="\n".join(exports))
    start = str(code / "potato_ray" / "job" / "start.py")
    launcher = ["-S", "-E", start, "launcher", str(folder), "--foreground"]
    command = " ".join([_program(keys.job_python or python), *map(shlex.quote, launcher)])
    return head + _prelude(keys.prelude, head.count("\n")) + _TAIL.format(command=command)


def cluster_of(script: str) -> str:
    """What the directives of a script name as its cluster, such as "far" or "near,far"; "" for no other one.

    "all" is "" as well: that names none to be asked.
    """
    words = [word for flags in _directives(script) for word in _words(flags)]
    named = ""
    for word, following in zip(words, [*words[1:], ""]):
        joined = _CLUSTER.fullmatch(word)
        if word in _CLUSTER_FLAGS:
            named = following
        elif joined is not None:
            named = joined.group(1)
    return "" if named == "all" else named


def _directives(script: str) -> list[str]:
    """What sbatch reads: all up to the first command."""
    found = []
    for line in script.splitlines():
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith(_DIRECTIVE):
            found.append(line[len(_DIRECTIVE) :])
    return found


def _words(flags: str) -> list[str]:
    try:
        return shlex.split(flags)
    except ValueError:  # a quote that is not closed; sbatch will say so
        return flags.split()


def _flags(keys: SlurmKeys, name: str, folder: Path) -> tuple[str, ...]:
    # Of a flag that is named twice, sbatch takes the last: sbatch_args have the last word.
    return (
        f"--job-name={name}",
        f"--output={_quoted(str(folder / OUTPUT))}",
        "--open-mode=append",
        "--no-requeue",
        *keys.flags(),
        *_lines_of(keys.sbatch_args),
    )


def _lines_of(arguments: tuple[str, ...]) -> list[str]:
    """A line for each flag; a value that is an entry of its own goes with the flag before it."""
    lines: list[str] = []
    for each in arguments:
        if each.startswith("-"):
            lines.append(each)
        else:
            lines[-1] += f" {each}"
    return lines


def _quoted(path: str) -> str:
    """A path as sbatch reads it from a script: % would begin a placeholder, a blank end it."""
    literal = path.replace("%", "%%")
    if _PLAIN.fullmatch(literal.replace("%", "")):
        return literal
    escaped = literal.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _literal(text: str) -> str:
    """A text for bash in one line: a line end of DOS in a script is refused by sbatch."""
    if not _CONTROL.search(text):
        return shlex.quote(text)
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + _CONTROL.sub(lambda found: f"\\{ord(found.group()):03o}", escaped) + "'"


def _prelude(lines: tuple[str, ...], n_before: int) -> str:
    if not lines:
        return ""
    watched = _WATCHED.format(before=n_before + _WATCHED.count("\n"))
    return watched + "".join(f"{line}\n" for line in lines) + _UNWATCHED


def _program(python: str) -> str:
    """An interpreter in the words of the shell, which alone knows whose home ~ is."""
    if python.startswith("~/"):
        return '"$HOME"/' + shlex.quote(python[2:])
    return shlex.quote(python)
