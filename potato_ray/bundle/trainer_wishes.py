"""What the trainer of a run wants of its bundle: fields of the items, and items that share a split."""

from __future__ import annotations

import importlib
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from potato_ray.bundle.request import BundleRequest
from potato_ray.errors import RunFailed
from potato_ray.project.items import Item
from potato_ray.project.text_fields import clean, readable
from potato_ray.trainers.base import Grouping, Trainer, TrainerError
from potato_ray.trainers.installing import into_this_python
from potato_ray.trainers.registry import require_trainer, trainer_names


@dataclass(frozen=True)
class TrainerWishes:
    """`fields` are carried by the rows beside the text; `grouping` is None where the study splits.

    `pictures` says whether the trainer learns from pictures at all.
    """

    trainer: str = ""
    fields: tuple[str, ...] = ()
    grouping: Grouping | None = None
    pictures: bool = True

    @classmethod
    def of(cls, request: BundleRequest) -> TrainerWishes:
        """Those of the request's trainer with its parameters; none where it names no trainer.

        Raises RunFailed where the trainer cannot be had, or fails when it is asked.
        """
        if not request.trainer:
            return cls()
        trainer = _trainer(request.trainer)
        with _asking(trainer.name, "which fields of the items it reads"):
            fields = tuple(trainer.item_fields(request.params))
        with _asking(trainer.name, "how the items are to be grouped"):
            grouping = trainer.grouping(request.params)
        return cls(trainer.name, fields, grouping, "image" in trainer.modalities)

    @property
    def split_by(self) -> str | None:
        """What items are grouped by, in a word; None: as the study splits."""
        return self.grouping.by if self.grouping else None

    def row(self, item: Item) -> dict[str, Any]:
        """A row of the item, without targets and media."""
        row: dict[str, Any] = {"instance_id": item.instance_id, "text": item.text}
        if item.texts:
            row["texts"] = list(item.texts)
        if self.fields:
            row["fields"] = {name: clean(readable(item.fields.get(name))) for name in self.fields}
        return row

    def groups(self, items: Iterable[Item], labelled: Mapping[str, Any]) -> dict[str, str]:
        """The group of each labelled item that has one.

        Raises RunFailed where a package is missing, or where the trainer fails on an item.
        """
        if self.grouping is None:
            return {}
        self._import_packages(self.grouping)
        found: dict[str, str] = {}
        for item in items:
            if item.instance_id not in labelled:
                continue
            row = self.row(item)
            with _asking(self.trainer, f"for the group of item {item.instance_id!r}"):
                group = self.grouping.group_of(row)
            if group:
                found[item.instance_id] = group
        return found

    def empty_of(self, items: Iterable[Item], without_text: frozenset[str]) -> frozenset[str]:
        """Those of the items without text that have none of the fields either."""
        if not self.fields or not without_text:
            return without_text
        return frozenset(
            item.instance_id
            for item in items
            if item.instance_id in without_text
            and not any(text.strip() for text in self.row(item)["fields"].values())
        )

    def check_fields(self, items: Iterable[Item]) -> None:
        """Raises RunFailed for a field that no item has."""
        wanted, seen = set(self.fields), dict[str, None]()
        for item in items if wanted else ():
            wanted.difference_update(item.fields)
            seen.update(dict.fromkeys(map(str, item.fields)))
            if not wanted:
                return
        for name in sorted(wanted):
            raise RunFailed(
                f"No item has the field {name!r}, which {self.trainer} is told to read.",
                code="bundle_failed",
                evidence=f"The items have {', '.join(map(repr, seen)) or 'no fields'}.",
                next_step="Name a field that the items have.",
            )

    def _import_packages(self, grouping: Grouping) -> None:
        for need in grouping.requires:
            try:
                importlib.import_module(need.module)
            except ImportError as error:
                raise RunFailed(
                    f"Items cannot be split by {grouping.by}: {need.package} is missing where the bundle is "
                    "built.",
                    code="missing_dependency",
                    evidence=f"{sys.executable} on {socket.gethostname()}: {error}.",
                    next_step=f"Run: {into_this_python(grouping.install_hint)}",
                ) from None


def _trainer(name: str) -> type[Trainer]:
    try:
        return require_trainer(name)
    except TrainerError as error:
        raise RunFailed(
            f"The training data could not be built: {error.message}",
            code=error.code,
            evidence=f"Asked for it: {sys.executable} on {socket.gethostname()}, where the bundle is built.",
            next_step="Repair or install the trainer there, or choose another one of "
            f"{', '.join(trainer_names())}.",
        ) from error


@contextmanager
def _asking(trainer: str, for_what: str) -> Iterator[None]:
    """Turns what a trainer raises when it is asked into a RunFailed that names the trainer."""
    try:
        yield
    except TrainerError as error:
        raise RunFailed(error.message, code=error.code, next_step=error.next_step) from error
    except Exception as error:
        raise RunFailed(
            f"Trainer '{trainer}' failed when it was asked {for_what}.",
            code="bundle_failed",
            evidence=f"{type(error).__name__}: {error}",
            next_step=f"Mend trainer '{trainer}' or its parameters, or choose another trainer.",
        ) from error
