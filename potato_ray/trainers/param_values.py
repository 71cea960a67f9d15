"""The value of one parameter: whether it is of the type and in the range, and what to write instead."""

from __future__ import annotations

import difflib
import math
import re
from typing import Any, Callable, Iterable, Mapping, Sequence

from potato_ray.trainers.base import Param
from potato_ray.trainers.value_range import finite_number

_DOTTED_PATH = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*")
_CLASS_NAME = re.compile(r"[A-Z]\w*")
"""Functions are written in small letters; telling them apart must not take an import of their package."""

_WRITTEN_OUT = 1e15
"""Whole numbers from here on are told as powers of ten."""


def problem_with(param: Param, value: Any) -> str:
    """What is wrong with a value, as the rest of a sentence that begins with the name; "" for nothing.

    The members of a mapping are not looked at.
    """
    if value is None:
        return "" if param.optional else f"must be {_wanted(param)}, not null."
    return _CHECKS[param.type](param, value)


def suggestion(name: str, known: Iterable[str]) -> str:
    """` Did you mean x?`, or "" where nothing is alike."""
    near = nearest(name, list(known))
    return f" Did you mean {near}?" if near else ""


def nearest(name: str, known: Sequence[str]) -> str:
    """The name in `known` that is spelt most alike, else the only one that begins with `name`, else "".

    Where nothing is alike as it is written, small and capital letters are the same.
    """
    folded = {each.lower(): each for each in reversed(known)}
    close = difflib.get_close_matches(name, known, n=1)
    close = close or [folded[each] for each in difflib.get_close_matches(name.lower(), folded, n=1)]
    begun = [each for each in known if name and each.lower().startswith(name.lower())]
    return (close or (begun if len(begun) == 1 else [""]))[0]


def number_shown(value: float) -> str:
    """A number as people write it: 131072, 0.05, 1e-08."""
    if isinstance(value, int):
        return _shown(value)  # a huge one cannot become a float
    return str(int(value)) if value.is_integer() and abs(value) < _WRITTEN_OUT else f"{value:g}"


def range_shown(param: Param) -> str:
    """`1 to 1000`, `1 or more`, `1 or less`, or ""."""
    least, most = param.minimum, param.maximum
    if least is not None and most is not None:
        return f"{number_shown(least)} to {number_shown(most)}"
    if least is not None:
        return f"{number_shown(least)} or more"
    return "" if most is None else f"{number_shown(most)} or less"


def _check_int(param: Param, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int):
        return _not(param, value)
    return _check_range(param, value)


def _check_float(param: Param, value: Any) -> str:
    number = finite_number(value)
    return _not(param, value) if number is None else _check_range(param, number)


def _check_range(param: Param, value: float) -> str:
    if param.minimum is not None and value < param.minimum:
        return f"must be {number_shown(param.minimum)} or more, not {number_shown(value)}."
    if param.maximum is not None and value > param.maximum:
        return f"must be {number_shown(param.maximum)} or less, not {number_shown(value)}."
    return ""


def _check_bool(param: Param, value: Any) -> str:
    return "" if isinstance(value, bool) else _not(param, value)


def _check_str(param: Param, value: Any) -> str:
    return "" if isinstance(value, str) else _not(param, value)


def _check_choice(param: Param, value: Any) -> str:
    if isinstance(value, str) and value in param.choices:
        return ""
    hint = suggestion(value, param.choices) if isinstance(value, str) else ""
    return f"must be one of {', '.join(param.choices)}, not {_shown(value)}.{hint}"


def _check_names(param: Param, value: Any) -> str:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) and n.strip() for n in names):
        return _not(param, value)
    if not names:
        instead = " or null" if param.optional else ""
        return f"must hold at least one name{instead}."
    wrong = next((name for name in names if param.choices and name not in param.choices), None)
    if wrong is None:
        return ""
    return f"may hold {', '.join(param.choices)}, not {_shown(wrong)}.{suggestion(wrong, param.choices)}"


def _check_mapping(param: Param, value: Any) -> str:
    if not isinstance(value, Mapping):
        return _not(param, value)
    return (
        ""
        if _is_plain(value)
        else "may hold only text, finite numbers, true, false, null, lists and mappings."
    )


def _check_bool_or_mapping(param: Param, value: Any) -> str:
    if isinstance(value, bool):
        return ""
    return _check_mapping(param, value)


def _check_dotted_path(param: Param, value: Any) -> str:
    if isinstance(value, str) and value in param.choices:
        return ""
    if not isinstance(value, str) or not _DOTTED_PATH.fullmatch(value):
        hint = suggestion(value, param.choices) if isinstance(value, str) else ""
        return f"{_not(param, value)}{hint}"
    package, _, rest = value.partition(".")
    if not rest:
        return _check_short_name(param, value)
    if param.packages and package not in param.packages:
        return f"must come from {_listed(param.packages)}; {value} does not."
    if not _CLASS_NAME.fullmatch(rest.rpartition(".")[2]):
        return f"must name a class, whose name begins with a capital letter; {value} does not."
    return ""


def _check_short_name(param: Param, value: str) -> str:
    if not param.choices:
        return ""
    hint = suggestion(value, param.choices)
    return f"{value} is not known by its short name; write its full dotted path.{hint}"


_CHECKS: dict[str, Callable[[Param, Any], str]] = {
    "int": _check_int,
    "float": _check_float,
    "bool": _check_bool,
    "str": _check_str,
    "choice": _check_choice,
    "names": _check_names,
    "mapping": _check_mapping,
    "bool_or_mapping": _check_bool_or_mapping,
    "dotted_path": _check_dotted_path,
}

TYPES_IN_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "choice": "one of the choices",
    "names": "a name or a list of names",
    "mapping": "a mapping",
    "bool_or_mapping": "true, false or a mapping",
    "dotted_path": "the dotted path of a class, package.module.Name",
}


def _not(param: Param, value: Any) -> str:
    return f"must be {_wanted(param)}, not {_shown(value)}."


def _wanted(param: Param) -> str:
    words = TYPES_IN_WORDS[param.type]
    has_short_names = param.type == "dotted_path" and param.choices
    return f"{', '.join(param.choices)} or {words}" if has_short_names else words


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
