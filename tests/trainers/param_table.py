"""The table of a trainer's parameters, as docs/trainers.md has it.

`python tests/trainers/param_table.py NAME` prints it, to be pasted into the page.
"""

import json
import sys

from potato_ray.trainers import registry
from potato_ray.trainers.base import Param, Trainer
from potato_ray.trainers.param_values import range_shown
from potato_ray.trainers.params import with_members

HEAD = ("| parameter | type | default | meaning |", "|---|---|---|---|")
WORDS = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "str": "text",
    "names": "name or list of names",
    "mapping": "mapping",
    "bool_or_mapping": "true, false or mapping",
    "dotted_path": "class, by dotted path",
}


def rows_of(trainer: type[Trainer]) -> list[str]:
    """A line for each parameter, and after it one for each of its members."""
    return [_row(name, param) for name, param in with_members(trainer.params)]


def _row(name: str, param: Param) -> str:
    kind = ", ".join(filter(None, [_kind(param), range_shown(param), "or null" if param.optional else ""]))
    return f"| `{name}` | {kind} | `{json.dumps(param.default)}` | {param.help} |"


def _kind(param: Param) -> str:
    choices = [f"`{choice}`" for choice in param.choices]
    if param.type == "choice":
        return " or ".join(filter(None, [", ".join(choices[:-1]), choices[-1]]))
    if param.type == "names" and choices:
        return f"{WORDS['names']}: {', '.join(choices)}"
    return WORDS[param.type]


if __name__ == "__main__":
    table = [*HEAD, *rows_of(registry.require_trainer(sys.argv[1]))]
    sys.stdout.write("\n".join(table) + "\n")
