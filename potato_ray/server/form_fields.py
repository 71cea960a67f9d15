"""From a trainer's parameters to the fields of the form that starts a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.trainers.param_values import number_shown

CONTROLS = {
    "int": "number",
    "float": "number",
    "bool": "tick",
    "str": "text",
    "choice": "menu",
    "names": "text",
    "mapping": "json",
    "bool_or_mapping": "json",
    "dotted_path": "text",
}
"""The control of each type of parameter; names with choices are ticks, mappings with members a group."""

LEFT_OUT = "left out"
"""What a field shows of a parameter without a value."""


@dataclass(frozen=True)
class Field:
    """One field. A field that is left as it is sends nothing, and the run gets `effective`.

    `name` is the full one (lora.r), `label` its last part. `effective` is the configured value, else the
    default, as text ("" for none); `source` says where it comes from. `minimum` and `maximum` are texts for
    the control's own check. `given` is, as JSON, the mapping that the fields of a group add to.
    """

    name: str
    id: str
    control: str
    type: str
    help: str
    effective: str
    source: str
    choices: tuple[str, ...] = ()
    chosen: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    optional: bool = False
    advanced: bool = False
    given: str = "{}"
    members: tuple[Field, ...] = ()

    @property
    def label(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def ticked(self) -> bool:
        return self.effective not in ("", "false")

    @property
    def placeholder(self) -> str:
        """What an empty field stands for."""
        return self.effective or (LEFT_OUT if self.optional else "")

    @property
    def can_be_left_out(self) -> bool:
        """Whether null says something else than the empty field."""
        return self.optional and bool(self.effective)

    @property
    def note(self) -> str:
        """What holds when the field is left empty, and what it may be."""
        return " ".join(part for part in (self._left_alone, self._range, self._form) if part)

    @property
    def _left_alone(self) -> str:
        if self.effective in ("", "{}") or (self.control == "group" and self.type == "mapping"):
            return ""
        shown = {"true": "on", "false": "off"}.get(self.effective, self.effective)
        return f"{self.source}: {shown}."

    @property
    def _range(self) -> str:
        if self.minimum and self.maximum:
            return f"From {self.minimum} to {self.maximum}."
        if self.minimum:
            return f"{self.minimum} or more."
        return f"{self.maximum} or less." if self.maximum else ""

    @property
    def _form(self) -> str:
        if self.control == "json":
            return "Write it as JSON."
        return "Separate names by commas." if self.control == "text" and self.type == "names" else ""


def fields_of(trainer: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a trainer of the catalogue."""
    configured = trainer["configured"]
    return tuple(
        _field(each, f"{trainer['name']}--", "", each["configured"], each["name"] in configured)
        for each in trainer["params"]
    )


def _field(param: Mapping[str, Any], ids: str, above: str, value: Any, configured: bool) -> Field:
    least, most = param["minimum"], param["maximum"]
    name, control = above + param["name"], _control(param)
    return Field(
        name=name,
        id=ids + name.replace(".", "--"),
        control=control,
        type=param["type"],
        help=param["help"],
        effective=_effective(control, value),
        source="Configured" if configured else "Default",
        choices=tuple(param["choices"]),
        chosen=tuple(_list(value)) if control == "ticks" else (),
        minimum="" if least is None else number_shown(least),
        maximum="" if most is None else number_shown(most),
        optional=param["optional"],
        advanced=param["advanced"],
        given=json.dumps(value) if isinstance(value, Mapping) else "{}",
        members=_members(param, ids, f"{name}.", value, configured),
    )


def _members(
    param: Mapping[str, Any], ids: str, above: str, value: Any, configured: bool
) -> tuple[Field, ...]:
    """`value` is that of the mapping; what it leaves out has the member's default."""
    given = value if isinstance(value, Mapping) else {}
    return tuple(
        _field(
            each,
            ids,
            above,
            given.get(each["name"], each["default"]),
            configured and each["name"] in given,
        )
        for each in param["members"]
    )


def _control(param: Mapping[str, Any]) -> str:
    if param["members"]:
        return "group"
    return "ticks" if param["type"] == "names" and param["choices"] else CONTROLS[param["type"]]


def _effective(control: str, value: Any) -> str:
    if control == "group" and isinstance(value, Mapping):
        return "true"
    if control in ("text", "ticks") and isinstance(value, (list, tuple)):
        return ", ".join(value)
    return text_of(value)


def _list(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def text_of(value: Any) -> str:
    """A value as people write it into a field: true, 0.5, {"C": 2.0}; "" for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
