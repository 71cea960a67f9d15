"""The form that starts a run, made of the catalogue that the API answers with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.backends.making import LOCAL, describe
from potato_ray.config.models import ProjectConfig
from potato_ray.server.agents_panel import AgentPanel
from potato_ray.server.catalogue import schemas_body, trainers_body
from potato_ray.server.form_fields import Field, fields_of
from potato_ray.trainers.registry import BUILT_IN

Object = Mapping[str, Any]


@dataclass(frozen=True)
class BackendChoice:
    """One entry of the menu `Runs on`. `why_not` says why nothing can run there, "" where it can.

    `agents` is there for an agent backend.
    """

    name: str
    label: str
    description: str
    chosen: bool
    why_not: str
    agents: AgentPanel | None


@dataclass(frozen=True)
class TrainerChoice:
    """A trainer and its part of the form. `schemes` are those that it can learn, in their order.

    `lacking` says what the server's Python lacks for it, "" for nothing, and `install` is the line that
    installs it; `needs` names all of its packages.
    """

    name: str
    description: str
    schemes: tuple[str, ...]
    fields: tuple[Field, ...]
    licence: Object
    lacking: str
    install: str
    needs: str
    local_only: bool

    @property
    def plain(self) -> list[Field]:
        return [field for field in self.fields if not field.advanced]

    @property
    def advanced(self) -> list[Field]:
        return [field for field in self.fields if field.advanced]


@dataclass(frozen=True)
class SchemeChoice:
    """A scheme that some trainer can learn."""

    name: str
    annotation_type: str
    description: str


@dataclass(frozen=True)
class LeftOut:
    """Something that cannot be chosen, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class StartForm:
    """The choices of the form. `first` is the trainer that is shown at the beginning: one that can run."""

    trainers: tuple[TrainerChoice, ...]
    schemes: tuple[SchemeChoice, ...]
    backends: tuple[BackendChoice, ...]
    left_out_schemes: tuple[LeftOut, ...]
    left_out_trainers: tuple[LeftOut, ...]

    @property
    def first(self) -> str:
        ours = list(BUILT_IN)

        def rank(trainer: TrainerChoice) -> tuple[bool, bool, int, int]:
            place = ours.index(trainer.name) if trainer.name in ours else len(ours)
            return bool(trainer.lacking), trainer.licence["needs_confirmation"], place, -len(trainer.schemes)

        return min(self.trainers, key=rank).name if self.trainers else ""


def start_form(
    config: ProjectConfig, backends: Iterable[Object], agents: Iterable[AgentPanel] = ()
) -> StartForm:
    """The form for this project; imports no training library. `backends` are those of `backends_body`."""
    views = {view.name: view for view in agents}
    schemas = schemas_body(config)["schemas"]
    known = trainers_body(config)
    choices = [_trainer(each, schemas) for each in known["trainers"]]
    return StartForm(
        trainers=tuple(choice for choice in choices if choice.schemes),
        schemes=tuple(
            SchemeChoice(each["name"], each["annotation_type"], each["description"])
            for each in schemas
            if each["trainers"]
        ),
        backends=tuple(_backend(each, config, views) for each in backends),
        left_out_schemes=tuple(
            LeftOut(f"{each['name']} ({each['annotation_type']})", each["why_not"])
            for each in schemas
            if not each["trainers"]
        ),
        left_out_trainers=tuple(_left_out(choices, known["broken"])),
    )


def _trainer(trainer: Object, schemas: Iterable[Object]) -> TrainerChoice:
    return TrainerChoice(
        name=trainer["name"],
        description=trainer["description"],
        schemes=tuple(each["name"] for each in schemas if trainer["name"] in each["trainers"]),
        fields=fields_of(trainer),
        licence=trainer["licence"],
        lacking=trainer["reason"],
        install=trainer["install_hint"],
        needs=", ".join(each["package"] for each in trainer["requires"]),
        local_only=trainer["local_only"],
    )


def _left_out(choices: Iterable[TrainerChoice], broken: Iterable[Object]) -> Iterator[LeftOut]:
    for each in choices:
        if not each.schemes:
            yield LeftOut(each.name, f"{each.description} It learns none of this project's schemes.")
    for one in broken:
        yield LeftOut(one["name"], one["reason"])


def _backend(backend: Object, config: ProjectConfig, agents: Mapping[str, AgentPanel]) -> BackendChoice:
    name = backend["name"]
    return BackendChoice(
        name=name,
        label=describe(name, config),
        # The label of local says all of it.
        description="" if backend["type"] == LOCAL else backend["description"],
        chosen=backend["default"],
        why_not=backend["why_not"],
        agents=agents.get(name),
    )
