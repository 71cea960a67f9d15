"""The types of single values: what each accepts, and in which form it hands it on.

A ValueError says, as the end of a sentence that begins with the key, what the value must be.
"""

from __future__ import annotations

import re
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from potato_ray.config.slurm_time import seconds_of

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_INDICES = re.compile(r"\d{1,3}(,\d{1,3})*", re.ASCII)
_DEVICE = re.compile(r"auto|cpu|cuda(:\d{1,3})?|mps", re.ASCII)
_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _no_blank(value: str) -> str:
    if any(character.isspace() for character in value) or _CONTROL.search(value):
        raise ValueError("must not contain blanks or control characters")
    return value


def _no_option(value: str) -> str:
    if value.startswith("-"):
        raise ValueError("must not begin with -, or it would be taken for an option")
    return value


def _one_line(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    if _CONTROL.search(value):
        raise ValueError("must be one line without control characters")
    return value


def _gpus(value: Any) -> Any:
    """auto, none, or indices as text: 0 → "0", [0, 1] → "0,1"."""
    wrong = ValueError('must be auto, none, or GPU indices such as "0" or "0,1"')
    parts = value if isinstance(value, list) else [value]
    if not parts or any(isinstance(part, bool) or not isinstance(part, str | int) for part in parts):
        raise wrong
    text = ",".join(str(part).strip() for part in parts).replace(" ", "")
    if text in ("auto", "none"):
        return text
    if not _INDICES.fullmatch(text):
        raise wrong
    indices = [int(index) for index in text.split(",")]
    if len(set(indices)) < len(indices):
        raise ValueError("must not name a GPU twice")
    return ",".join(map(str, indices))


def _device(value: str) -> str:
    if not _DEVICE.fullmatch(value):
        raise ValueError("must be auto, cpu, cuda, cuda:N (N a GPU index) or mps")
    return value


def _int_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _slurm_word(value: str) -> str:
    if any(each in value for each in "\"'\\#"):
        raise ValueError("must not contain quotes, backslashes or #: sbatch would end there")
    return value


def _sbatch_flags(value: tuple[str, ...]) -> tuple[str, ...]:
    # A flag and its value may be two entries.
    if value and not value[0].startswith("-"):
        raise ValueError("must begin with a flag of sbatch, such as --exclusive")
    return value


def _slurm_time(value: str) -> str:
    seconds_of(value)
    return value


def _env_name(value: str) -> str:
    if not _ENV_NAME.fullmatch(value):
        raise ValueError("must be the name of an environment variable: letters, digits and _")
    return value


def _no_nul(value: str) -> str:
    if "\0" in value:
        raise ValueError("must not contain a NUL character")
    return value


def _web_address(value: str) -> str:
    value = _no_blank(value)
    try:
        address = urlsplit(value)
        # A port that is none raises ValueError.
        usable = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an http:// or https:// address")
    return value


def _false_is_off(value: Any) -> Any:
    # YAML reads an unquoted off as false.
    return "off" if value is False else value


def _auto_or_bool(value: Any) -> Any:
    if value != "auto" and not isinstance(value, bool):
        raise ValueError("must be auto, true or false")
    return value


def _path_of(value: Any) -> Any:
    """A data file is a path, or a mapping that has a `path`."""
    if not isinstance(value, dict):
        return value
    if not isinstance(value.get("path"), str):
        raise ValueError("must be a path, or a mapping that has a path")
    return value["path"]


def _nothing_is_empty(value: Any) -> Any:
    # A block whose lines are all commented out is null in YAML.
    return {} if value is None else value


Text = Annotated[str, AfterValidator(_one_line)]
Word = Annotated[str, Field(min_length=1), AfterValidator(_no_blank)]
Host = Annotated[str, Field(min_length=1), AfterValidator(_no_option), AfterValidator(_no_blank)]
Command = Annotated[str, AfterValidator(_one_line), AfterValidator(_no_option)]
Gpus = Annotated[str, BeforeValidator(_gpus)]
Device = Annotated[str, AfterValidator(_device)]
SlurmTime = Annotated[str, BeforeValidator(_int_as_text), AfterValidator(_slurm_time)]
SlurmWord = Annotated[Word, AfterValidator(_slurm_word)]
Memory = Annotated[SlurmWord, BeforeValidator(_int_as_text)]
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvValue = Annotated[str, BeforeValidator(_int_as_text), AfterValidator(_no_nul)]
WebAddress = Annotated[str, AfterValidator(_web_address)]
OffSwitch = BeforeValidator(_false_is_off)
AutoOrBool = BeforeValidator(_auto_or_bool)
MaybeEmpty = BeforeValidator(_nothing_is_empty)
DataFile = Annotated[str, BeforeValidator(_path_of), Field(min_length=1)]

# Lists come out as tuples, so that a configuration cannot change under those who hold it.
Texts = Annotated[tuple[Text, ...], Strict(False)]
Lines = Annotated[tuple[Annotated[str, AfterValidator(_no_nul)], ...], Strict(False)]
SbatchFlags = Annotated[Texts, AfterValidator(_sbatch_flags)]
DataFiles = Annotated[tuple[DataFile, ...], Strict(False), Field(min_length=1)]
Schemes = Annotated[tuple[dict[str, Any], ...], Strict(False), Field(min_length=1)]

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
AboveZero = Annotated[float, Field(gt=0)]
AtLeastZero = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Port = Annotated[int, Field(ge=1, le=65535)]
