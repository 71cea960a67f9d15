"""What a trainer is: its parameters, what it needs, and how it fits and predicts.

Parameter schemas are plain dataclasses so that the server can validate, document and render them
without importing any training library; a trainer imports its library inside `fit` and `predict`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, ClassVar, Dict, Iterable, Iterator, Mapping

Row = Dict[str, Any]
"""One line of a split file: `instance_id`, `text`, maybe `media`, `fields`, and `targets` by scheme name."""


class TrainerError(Exception):
    """A failure that the worker reports as the run's error.

    `code` is one of bad_spec, missing_dependency, validation_failed, fit_failed, out_of_memory,
    unfitting_device; `next_step` is one sentence that says what to do.
    """

    def __init__(self, code: str, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.next_step = next_step


@dataclass(frozen=True)
class Param:
    """One parameter of a trainer.

    `type` is one of int, float, bool, str, choice, names, mapping, bool_or_mapping, dotted_path. `optional`
    lets None through (the default may then be None). `minimum` and `maximum` are inclusive. For type choice,
    `choices` lists the values, and for names, one text or a list of them, those that it may hold (any, where
    there are none). `members` describes the keys of a mapping; without them a mapping may hold anything.
    bool_or_mapping is false, true for the defaults of all members, or a mapping of some of them
    (`params.members_of` reads all three). Type dotted_path is the path of a class; `packages` lists the
    top-level packages that it may come from, and `choices` the short names that stand for a path (those of
    the class alone).
    `advanced` parameters are folded away in the form.
    """

    name: str
    type: str
    default: Any
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    advanced: bool = False
    packages: tuple[str, ...] = ()
    members: tuple[Param, ...] = ()


@dataclass(frozen=True)
class Requirement:
    """A package that a trainer needs: the module that is imported and what pip installs."""

    module: str
    package: str


@dataclass(frozen=True)
class Licence:
    """The licence of what a trainer runs; `needs_confirmation` asks for accept_licence at the start."""

    spdx: str
    url: str = ""
    needs_confirmation: bool = False
    commercial_use: bool = True


@dataclass(frozen=True)
class Grouping:
    """How a trainer wants labelled items grouped, so that all of a group fall into one split.

    `by` names it on pages and in the manifest. `group_of` gives the group of a row without targets; None:
    it is split as the study splits. It runs where the bundle is built and may import what `requires` lists.
    """

    by: str
    group_of: Callable[[Row], str | None]
    requires: tuple[Requirement, ...] = ()
    install_hint: str = ""


@dataclass(frozen=True)
class SchemeSpec:
    """The scheme that a run trains on, as the worker sees it.

    `labels` are those observed in the bundle, in the scheme's own order (sorted where it has none);
    `options` holds what a trainer may need to know of the scheme (mode, minimum, maximum, ...).
    """

    name: str
    annotation_type: str
    kind: str
    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Prediction:
    """One item's prediction; `payload` is described in kinds.py, `confidence` is in 0..1 or None."""

    instance_id: str
    payload: Mapping[str, Any]
    confidence: float | None = None


class Reporter(ABC):
    """What a trainer may say while it works; every call becomes one line of events.jsonl."""

    @abstractmethod
    def status(self, phase: str, step: str = "") -> None:
        """Name the phase (fitting, calibrating, ...) and the step line that people see."""

    @abstractmethod
    def progress(self, current: float, total: float, eta_s: float | None = None) -> None:
        """How far the present phase is, in whole steps, rows or the like; `eta_s` in seconds."""

    @abstractmethod
    def metric(self, name: str, value: float, step: int | None = None) -> None:
        """One number, of a curve when `step` is given. Training scores are named train_*."""

    @abstractmethod
    def log(self, message: str, level: str = "info") -> None:
        """One line of the run's log; level is info or warning."""


@dataclass
class FitContext:
    """Everything that `fit` gets. `rows` can be called again: each call re-reads the split.

    `seed` is 0 to 2**32 - 1, which NumPy's generators take.
    """

    scheme: SchemeSpec
    params: Mapping[str, Any]
    rows: Callable[[str], Iterable[Row]]
    n_rows: Mapping[str, int]
    artifacts: Path
    media: Path
    seed: int
    device: str
    reporter: Reporter
    bundle_digest: str = ""
    late_device: Callable[[], str] = lambda: "cpu"
    """Chooses a device as `device` is chosen for what requires torch, which it imports."""


class Trainer(ABC):
    """Base of all trainers. One instance serves one run, or one loaded model."""

    name: ClassVar[str]
    description: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]]
    annotation_types: ClassVar[tuple[str, ...] | None] = None
    """The annotation types that it learns; None: every type whose kind is in `kinds`."""
    modalities: ClassVar[tuple[str, ...]] = ("text",)
    params: ClassVar[tuple[Param, ...]]
    requires: ClassVar[tuple[Requirement, ...]]
    install_hint: ClassVar[str]
    licence: ClassVar[Licence]
    selects_on_val: ClassVar[bool] = False
    scored_as: ClassVar[str | None] = None
    """The kind that its predictions are scored as, where it is not that of the scheme."""
    preload: ClassVar[tuple[str, ...]] = ()
    """Modules that a spare worker imports ahead of time."""

    @abstractmethod
    def fit(self, context: FitContext) -> dict[str, float]:
        """Fit on the train rows and write the model under `context.artifacts`.

        Returns training metrics, every name starting with `train_` or `n_`. Raises TrainerError.
        """

    @abstractmethod
    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict row by row, in order; only after `fit` or `load`."""

    @classmethod
    @abstractmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> Trainer:
        """Load what `fit` wrote, without running any code that the files bring. Raises TrainerError."""

    def label_order(self) -> list[str]:
        """The labels in the order of the model's outputs; empty for regression."""
        return []

    @classmethod
    def also_requires(cls, params: Mapping[str, Any]) -> tuple[Requirement, ...]:
        """What it needs beside `requires` with these complete parameters; torch: a GPU is then of use.

        Nothing of it is imported before `fit` does, which finds its device with `late_device`.
        """
        return ()

    @classmethod
    def problem_with(cls, params: Mapping[str, Any]) -> str:
        """What is wrong with complete parameters that fit one by one, in a sentence; "" for nothing.

        Asked before the run, where nothing of `requires` need be installed.
        """
        return ""

    @classmethod
    def item_fields(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        """The fields of the data's items that it reads beside the text; rows hold them under `fields`."""
        return ()

    @classmethod
    def grouping(cls, params: Mapping[str, Any]) -> Grouping | None:
        """How items are grouped before they are split; None: as the study does it."""
        return None


MIN_INSTANCES = Param(
    "min_instances", "int", 10, "The least number of labelled items in the train split.", minimum=1
)
