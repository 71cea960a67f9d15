"""Parameters of a trainer: checking what was given, filling in the rest, describing the schema."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass
from typing import Any, Iterable, Iterator, Mapping

from potato_ray.trainers.base import Param, Trainer
from potato_ray.trainers.param_values import problem_with, suggestion


@dataclass(frozen=True)
class ParamProblem:
    """One wrong parameter: the names that lead to it, and a sentence that says what to write instead."""

    path: tuple[str, ...]
    message: str

    @property
    def name(self) -> str:
        """As people write it: batch_size, or lora.r for a member of a mapping."""
        return ".".join(self.path)


def check_params(trainer: type[Trainer], given: Mapping[str, Any]) -> list[ParamProblem]:
    """Everything that is wrong with `given`, in its order; imports no training library."""
    known = {param.name: param for param in trainer.params}
    problems = []
    for name, value in given.items():
        if name not in known:
            problems.append(ParamProblem((str(name),), _unknown(trainer.name, str(name), known)))
            continue
        for problem in _problems_of(known[name], value, ()):
            problems.append(ParamProblem(problem.path, f"{trainer.name}: {problem.message}"))
    return problems


def problem_together(trainer: type[Trainer], params: Mapping[str, Any]) -> str:
    """What is wrong with complete parameters that have passed `check_params`, "" for nothing."""
    try:
        problem = trainer.problem_with(params)
    except Exception as failure:  # noqa: BLE001 - whatever somebody's own trainer raises
        problem = (
            f"the trainer's own check of its parameters failed with {type(failure).__name__}: {failure}; "
            "tell whoever wrote the trainer"
        )
    return f"{trainer.name}: {problem}" if problem else ""


def complete(trainer: type[Trainer], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """The trainer's defaults, overridden by each layer in turn; later layers win.

    A parameter is replaced as a whole, also when its value is a mapping; what a mapping with members
    leaves out has then the members' defaults, and bool_or_mapping is False or a mapping of all of them.
    The layers must have passed `check_params`.
    """
    values = {param.name: param.default for param in trainer.params}
    for layer in layers:
        values.update(layer)
    known = {param.name: param for param in trainer.params}
    return {name: completed(known[name], value) if name in known else value for name, value in values.items()}


def completed(param: Param, value: Any) -> Any:
    """A checked value as a trainer gets it: floats as floats, names as a list, all members of a mapping."""
    if value is None:
        return None
    if param.type == "float":
        return float(value)
    if param.type == "names":
        return [value] if isinstance(value, str) else list(value)
    members = members_of(param, value)
    return copy.deepcopy(value) if members is None else members


def members_of(param: Param, value: Any) -> dict[str, Any] | None:
    """Every member of a mapping by name, the defaults for those that a checked `value` leaves out.

    True stands for all of the defaults. None: there is no mapping, for `value` is None or false, or of a
    parameter without members.
    """
    if not param.members or value is None or value is False:
        return None
    given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    return {each.name: completed(each, given.get(each.name, each.default)) for each in param.members}


def with_members(params: Iterable[Param], above: str = "") -> Iterator[tuple[str, Param]]:
    """Each parameter by its full name, followed by its members: lora, lora.r, lora.alpha, ..."""
    for param in params:
        yield above + param.name, param
        yield from with_members(param.members, f"{above}{param.name}.")


def as_schema(trainer: type[Trainer]) -> list[dict[str, Any]]:
    """The parameters as JSON-able objects with the fields of `Param`, for forms and documents."""
    return [asdict(param) for param in trainer.params]


def _problems_of(param: Param, value: Any, above: tuple[str, ...]) -> Iterator[ParamProblem]:
    path = (*above, param.name)
    message = problem_with(param, value)
    if message:
        yield ParamProblem(path, f"{'.'.join(path)} {message}")
    elif param.members and isinstance(value, Mapping):
        yield from _problems_of_members(param, value, path)


def _problems_of_members(
    param: Param, given: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[ParamProblem]:
    known = {member.name: member for member in param.members}
    for name, value in given.items():
        if name in known:
            yield from _problems_of(known[name], value, path)
        else:
            yield ParamProblem((*path, name), _unknown(".".join(path), name, known))


def _unknown(taker: str, name: str, known: Iterable[str]) -> str:
    return f"{taker} does not take {name}; it takes {', '.join(known)}.{suggestion(name, known)}"
