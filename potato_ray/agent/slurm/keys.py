"""What a backend says of its SLURM jobs: the keys of its configuration, or of a hand-written slurm.json."""

from __future__ import annotations

import difflib
import math
import re
from dataclasses import dataclass, field, fields
from typing import Any, Callable, Mapping

from potato_ray.agent.errors import AgentMisconfigured

FLAGS = {
    "partition": "--partition",
    "account": "--account",
    "qos": "--qos",
    "gres": "--gres",
    "time": "--time",
    "mem": "--mem",
    "cpus_per_task": "--cpus-per-task",
    "constraint": "--constraint",
    "nodelist": "--nodelist",
    "exclude": "--exclude",
    "reservation": "--reservation",
}
"""The sbatch flag that each key becomes; a key that is not set leaves its flag out."""

TIME_FORMS = 'minutes, "MM:SS", "HH:MM:SS", "D-HH", "D-HH:MM", "D-HH:MM:SS" or "unlimited"'
_TIME = re.compile(r"(?:\d+-)?\d+(?::\d+){0,2}|\d+-|unlimited|infinite", re.ASCII | re.IGNORECASE)
# A blank, a quote, a backslash or a # would end the value where sbatch reads it from the script.
_WORD = re.compile(r"""[^\s"'\\#\x00-\x1f\x7f-\x9f\ud800-\udfff]+""")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


class SlurmConfigInvalid(AgentMisconfigured):
    """A SLURM key has a value that cannot be used, or there is no such key."""

    default_code = "slurm_config_invalid"


@dataclass(frozen=True)
class SlurmKeys:
    """The SLURM keys of a backend; None: the flag is left out, and the cluster decides.

    `time` and `mem` are in SLURM's own notation. `sbatch_args` are further flags, verbatim.
    `prelude`: shell lines before the worker. `job_python` runs it, "": the agent's --python. `env` applies
    on the login node, too.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    gres: str | None = None
    time: str | None = None
    mem: str | None = None
    cpus_per_task: int | None = None
    constraint: str | None = None
    nodelist: str | None = None
    exclude: str | None = None
    reservation: str | None = None
    sbatch_args: tuple[str, ...] = ()
    prelude: tuple[str, ...] = ()
    job_python: str = ""
    poll_interval_s: float = 10.0
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_json(cls, body: Any) -> SlurmKeys:
        """Raises SlurmConfigInvalid. A key that is null is not set."""
        if not isinstance(body, dict):
            raise _invalid("What holds the SLURM keys", body, 'an object, such as {"partition": "gpu"}')
        known = [each.name for each in fields(cls)]
        for key in body:
            if key not in known:
                raise _unknown(key, known)
        readers = {**dict.fromkeys(FLAGS, _word), **_READERS}
        given = {key: readers[key](key, value) for key, value in body.items() if value is not None}
        return cls(**given)

    def flags(self) -> tuple[str, ...]:
        """The sbatch flags, one for each key that is set; without `sbatch_args`."""
        values = ((flag, getattr(self, key)) for key, flag in FLAGS.items())
        return tuple(f"{flag}={value}" for flag, value in values if value is not None)


def _word(key: str, value: Any) -> str:
    text = str(value) if _is_int(value) and key == "mem" else value
    if not isinstance(text, str) or not _WORD.fullmatch(text):
        raise _invalid(key, value, "a word without blanks, quotes, backslashes or #")
    return text


def _time(key: str, value: Any) -> str:
    text = str(value) if _is_int(value) else value
    if not isinstance(text, str) or not _TIME.fullmatch(text):
        raise _invalid(key, value, f"a SLURM time ({TIME_FORMS})")
    return text


def _positive(key: str, value: Any) -> int:
    if not _is_int(value) or value < 1:
        raise _invalid(key, value, "a whole number, 1 or more")
    return int(value)


def _seconds(key: str, value: Any) -> float:
    number = float(value) if _is_int(value) or isinstance(value, float) else math.nan
    if not 0 < number < math.inf:
        raise _invalid(key, value, "a number of seconds above 0")
    return number


def _command(key: str, value: Any) -> str:
    if not isinstance(value, str) or _CONTROL.search(value) or value.startswith("-"):
        raise _invalid(key, value, "the path or the name of a Python, in one line")
    return value.strip()


def _flags(key: str, value: Any) -> tuple[str, ...]:
    # A flag and its value may be two entries.
    for number, each in enumerate(_list(key, value)):
        if not each.strip() or _CONTROL.search(each) or (number == 0 and not each.startswith("-")):
            raise _invalid(key, each, 'a list of flags such as "--exclusive", each in one line')
    return tuple(value)


def _lines(key: str, value: Any) -> tuple[str, ...]:
    # An entry may itself be several lines of shell. sbatch refuses scripts with the line ends of DOS.
    lines = (each.replace("\r\n", "\n").rstrip("\n").split("\n") for each in _list(key, value))
    return tuple(line for each in lines for line in each)


def _list(key: str, value: Any) -> list[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise _invalid(key, value, "a list of texts")
    if any("\0" in each for each in value):
        raise _invalid(key, value, "a list of texts without NUL characters")
    return list(value)


def _env(key: str, value: Any) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise SlurmConfigInvalid(f"{key} must be an object of names and texts.", next_step=_ADVICE)
    for name in value:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise _invalid(key, name, "an object whose names are letters, digits and _")
    texts = {name: str(text) if _is_int(text) else text for name, text in value.items()}
    for name, text in texts.items():
        if not isinstance(text, str) or "\0" in text:
            # What it holds may be a secret.
            raise SlurmConfigInvalid(f"{key}.{name} must be a text without NUL.", next_step=_ADVICE)
    return texts


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "time": _time,
    "cpus_per_task": _positive,
    "poll_interval_s": _seconds,
    "job_python": _command,
    "sbatch_args": _flags,
    "prelude": _lines,
    "env": _env,
}
_ADVICE = "Correct it in the file of --slurm-config, or in the backend's configuration."


def _invalid(key: str, value: Any, must_be: str) -> SlurmConfigInvalid:
    return SlurmConfigInvalid(f"{key} must be {must_be}, not {value!r:.80}.", next_step=_ADVICE)


def _unknown(key: Any, known: list[str]) -> SlurmConfigInvalid:
    near = difflib.get_close_matches(str(key), known, 1)
    advice = f"Did you mean {near[0]}?" if near else f"The keys are {', '.join(known)}."
    return SlurmConfigInvalid(f"There is no SLURM key {key!r:.80}.", next_step=advice)
