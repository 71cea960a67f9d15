"""What a bundle is to be built from, as plain values that can be sent to another process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from potato_ray.bundle.split_names import DEFAULT_FRACTIONS
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.schemes import Scheme, scheme_named, schemes_of

CORRECTED = "corrected"
PINNED = "pinned"
FORCED = "forced"


@dataclass(frozen=True)
class BundleRequest:
    """One bundle to build.

    The first of `schemes` is the one that is trained; `project_schemes` names all of the configuration.
    `fractions` maps train, val and test to shares, normalised to 1. `forced_train` maps ids of items that
    must not be held out to CORRECTED, PINNED or FORCED (one of the two). `corrections` maps ids to the
    target that a reviewer gave, which stands in place of the annotators' answers. `group_key` names an
    item field whose equal values share a split. `trainer`, as a spec names it, and its complete `params` tell
    what its rows hold beside the text, and whether it groups items in a way of its own; "" for no trainer.
    """

    paths: ProjectPaths
    schemes: tuple[Scheme, ...]
    project_schemes: tuple[str, ...] = ()
    split_seed: int = 0
    fractions: Mapping[str, float] = field(default_factory=lambda: dict(DEFAULT_FRACTIONS))
    aggregation: str = "consensus"
    include_unlabeled: bool = False
    group_key: str | None = None
    forced_train: Mapping[str, str] = field(default_factory=dict)
    corrections: Mapping[str, Any] = field(default_factory=dict)
    trainer: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_config(
        cls,
        config: Any,
        schemas: Sequence[str],
        forced_train: Mapping[str, str] | Iterable[str] = (),
        corrections: Mapping[str, Any] | None = None,
        trainer: str = "",
        params: Mapping[str, Any] | None = None,
    ) -> BundleRequest:
        """The request that a loaded configuration makes for the named schemes.

        `forced_train` may be bare ids, where the reasons are not known. Raises StartRefused
        (unknown_schema) for a name that is no scheme.
        """
        known = schemes_of(config.annotation_schemes)
        training = config.model_training
        return cls(
            paths=ProjectPaths.from_config(config),
            schemes=tuple(scheme_named(known, name) for name in schemas),
            project_schemes=tuple(scheme.name for scheme in known),
            split_seed=training.split_seed,
            fractions=dict(training.splits.fractions),
            aggregation=training.aggregation,
            include_unlabeled=training.writeback.include_unlabeled,
            group_key=training.group_key,
            forced_train=_with_reasons(forced_train),
            corrections=dict(corrections or {}),
            trainer=trainer,
            params=dict(params or {}),
        )

    @property
    def scheme(self) -> Scheme:
        """The scheme that is trained."""
        return self.schemes[0]

    def warnings(self) -> list[str]:
        """What is asked for and not done: schemes beyond the first."""
        others = dict.fromkeys(each.name for each in self.schemes if each.name != self.scheme.name)
        return [
            f"{name!r} was not trained: a run trains the first scheme named, {self.scheme.name!r}."
            for name in others
        ]


def _with_reasons(forced_train: Mapping[str, str] | Iterable[str]) -> dict[str, str]:
    if isinstance(forced_train, Mapping):
        return dict(forced_train)
    return dict.fromkeys(forced_train, FORCED)
