"""From a trainer's parameters to the fields of the form that starts a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

CONTROLS = {
    "int": "number",
    "float": "number",
    "bool": "tick",
    "str": "text",
    "choice": "menu",
    "mapping": "json",
    "dotted_path": "text",
}
"""The control of each type of parameter."""


@dataclass(frozen=True)
class Field:
    """One field. A field that is left as it is sends nothing, and the run gets `effective`.

    `effective` is the configured value, else the default, as text ("" for none); `source` says where
    it comes from. `minimum` and `maximum` are texts for the control's own check.
    """

    name: str
    id: str
    control: str
    type: str
    help: str
    effective: str
    source: str
    choices: tuple[str, ...] = ()
    minimum: str = ""
    maximum: str = ""
    advanced: bool = False

    @property
    def ticked(self) -> bool:
        return self.effective == "true"

    @property
    def note(self) -> str:
        """What holds when the field is left empty, and what it may be."""
        return " ".join(part for part in (self._left_alone, self._range) if part)

    @property
    def _left_alone(self) -> str:
        if self.effective in ("", "{}"):
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


def fields_of(trainer: Mapping[str, Any]) -> tuple[Field, ...]:
    """The fields of a trainer of the catalogue."""
    configured = trainer["configured"]
    return tuple(_field(trainer["name"], each, each["name"] in configured) for each in trainer["params"])


def _field(trainer: str, param: Mapping[str, Any], configured: bool) -> Field:
    least, most = param["minimum"], param["maximum"]
    return Field(
        name=param["name"],
        id=f"{trainer}--{param['name']}",
        control=CONTROLS[param["type"]],
        type=param["type"],
        help=param["help"],
        effective=text_of(param["configured"]),
        source="Configured" if configured else "Default",
        choices=param["choices"],
        minimum="" if least is None else f"{least:g}",
        maximum="" if most is None else f"{most:g}",
        advanced=param["advanced"],
    )


def text_of(value: Any) -> str:
    """A value as people write it into a field: true, 0.5, {"C": 2.0}; "" for none."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
