"""Parameters of a trainer: checking what was given, filling in the rest, describing the schema."""

from __future__ import annotations

import copy
import difflib
import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Callable, Mapping

from potato_ray.trainers.base import Param, Trainer
from potato_ray.trainers.value_range import finite_number

_DOTTED_PATH = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*")
_CLASS_NAME = re.compile(r"[A-Z]\w*")
"""Functions are written in small letters; telling them apart must not take an import of their package."""


@dataclass(frozen=True)
class ParamProblem:
    """One wrong parameter: its name, and a sentence that says what to write instead."""

    name: str
    message: str


def check_params(trainer: type[Trainer], given: Mapping[str, Any]) -> list[ParamProblem]:
    """Everything that is wrong with `given`, in its order; imports no training library."""
    known = {param.name: param for param in trainer.params}
    problems = []
    for name, value in given.items():
        if name not in known:
            problems.append(ParamProblem(str(name), _unknown(trainer, str(name), list(known))))
            continue
        message = _problem_with(known[name], value)
        if message:
            problems.append(ParamProblem(name, f"{trainer.name}: {name} {message}"))
    return problems


def complete(trainer: type[Trainer], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's defaults, overridden by each layer in turn; later layers win.

    A parameter is replaced as a whole, also when its value is a mapping. The layers must have passed
    `check_params`.
    """
    values = {param.name: copy.deepcopy(param.default) for param in trainer.params}
    for layer in layers:
        values.update(layer)
    floats = {param.name for param in trainer.params if param.type == "float"}
    return {k: float(v) if k in floats and v is not None else v for k, v in values.items()}


def as_schema(trainer: type[Trainer]) -> list[dict[str, Any]]:
    """The parameters as JSON-able objects with the fields of `Param`, for forms and documents."""
    return [asdict(param) for param in trainer.params]


def _unknown(trainer: type[Trainer], name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{trainer.name} does not take {name}; it takes {', '.join(known)}.{hint}"


def _problem_with(param: Param, value: Any) -> str:
    if value is None:
        return "" if param.optional else f"must be {_TYPES_IN_WORDS[param.type]}, not null."
    return _CHECKS[param.type](param, value)


def _check_int(param: Param, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return _not(param, value)
    return _check_range(param, value)


def _check_float(param: Param, value: Any) -> str:
    number = finite_number(value)
    return _not(param, value) if number is None else _check_range(param, number)


def _check_range(param: Param, value: float) -> str:
    if param.minimum is not None and value < param.minimum:
        return f"must be {param.minimum:g} or more, not {_number_shown(value)}."
    if param.maximum is not None and value > param.maximum:
        return f"must be {param.maximum:g} or less, not {_number_shown(value)}."
    return ""


def _number_shown(value: float) -> str:
    """The number; a whole one as it stands, for a huge one cannot become a float."""
    return _shown(value) if isinstance(value, int) else f"{value:g}"


def _check_bool(param: Param, value: Any) -> str:
    return "" if isinstance(value, bool) else _not(param, value)


def _check_str(param: Param, value: Any) -> str:
    return "" if isinstance(value, str) else _not(param, value)


def _check_choice(param: Param, value: Any) -> str:
    if isinstance(value, str) and value in param.choices:
        return ""
    close = difflib.get_close_matches(value, param.choices, n=1) if isinstance(value, str) else []
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"must be one of {', '.join(param.choices)}, not {_shown(value)}.{hint}"


def _check_mapping(param: Param, value: Any) -> str:
    if not isinstance(value, Mapping):
        return _not(param, value)
    return (
        ""
        if _is_plain(value)
        else "may hold only text, finite numbers, true, false, null, lists and mappings."
    )


def _check_dotted_path(param: Param, value: Any) -> str:
    if not isinstance(value, str) or not _DOTTED_PATH.fullmatch(value):
        return _not(param, value)
    package, _, rest = value.partition(".")
    if not rest:
        return _check_short_name(param, value)
    if param.packages and package not in param.packages:
        return f"must come from {_listed(param.packages)}; {value} does not."
    if not _CLASS_NAME.fullmatch(rest.rpartition(".")[2]):
        return f"must name a class, whose name begins with a capital letter; {value} does not."
    return ""


def _check_short_name(param: Param, value: str) -> str:
    if not param.choices or value in param.choices:
        return ""
    close = difflib.get_close_matches(value, param.choices, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"{value} is not known by its short name; write its full dotted path.{hint}"


_CHECKS: dict[str, Callable[[Param, Any], str]] = {
    "int": _check_int,
    "float": _check_float,
    "bool": _check_bool,
    "str": _check_str,
    "choice": _check_choice,
    "mapping": _check_mapping,
    "dotted_path": _check_dotted_path,
}

_TYPES_IN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "choice": "one of the choices",
    "mapping": "a mapping",
    "dotted_path": "a dotted path such as sklearn.svm.LinearSVC",
}


def _not(param: Param, value: Any) -> str:
    return f"must be {_TYPES_IN_WORDS[param.type]}, not {_shown(value)}."


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _listed(names: tuple[str, ...]) -> str:
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(_is_plain(item) for item in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (str, int, bool))
