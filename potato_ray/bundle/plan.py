"""Which item goes into which split of a bundle, and what was moved out of the held-out splits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.bundle.request import CORRECTED, FORCED, PINNED, BundleRequest
from potato_ray.bundle.split_names import UNLABELED
from potato_ray.bundle.splits import assign
from potato_ray.project.items import ItemIndex, counted

GROUP = "group"

_REASONS = {
    CORRECTED: "corrected by a reviewer",
    PINNED: "pinned",
    FORCED: "corrected or pinned",
    GROUP: "in the group of such an item",
}


@dataclass(frozen=True)
class SplitPlan:
    """The split of every item that is written; the others are left out.

    `forced` maps the items that are in train by force to the reason, `moved` are those of them that
    their hash had put into val or test. `n_empty_left_out` counts items without text that are kept out
    of train and unlabeled: nothing can be learnt from an empty text, or said about one. `n_regrouped` counts
    those of the `n_labelled` items that a trainer's groups put into another split than the study would.
    """

    split_of: Mapping[str, str]
    forced: Mapping[str, str]
    moved: tuple[str, ...]
    n_empty_left_out: int
    n_labelled: int
    n_regrouped: int

    def forced_counts(self) -> dict[str, int]:
        """How many items are in train by force, by reason, and how many of all of them were moved."""
        counts = Counter(self.forced.values())
        reasons = {reason: counts[reason] for reason in _REASONS}
        return {**reasons, "moved": len(self.moved)}

    def warnings(self, split_by: str | None = None, group_key: str | None = None) -> Iterator[str]:
        """What people should know; `split_by` is what a trainer groups by, in place of the `group_key`."""
        if self.n_regrouped:
            labelled = f"{counted(self.n_labelled, 'item')} with an answer"
            instead = f" group_key ({group_key}) is not used in this run." if group_key else ""
            yield (
                f"The items are split by {split_by}: {self.n_regrouped} of {labelled} are in another split "
                f"than the study puts them into.{instead} The score cannot be compared with that of a run "
                "that is split otherwise."
            )
        if self.moved:
            counts = Counter(self.forced[instance_id] for instance_id in self.moved)
            reasons = ", ".join(
                f"{count} {_REASONS.get(reason, reason)}" for reason, count in sorted(counts.items())
            )
            yield (
                f"{counted(len(self.moved), 'held-out item')} moved into train ({reasons}). The score is "
                "computed without them, and cannot be compared directly with those of earlier runs."
            )
        if self.n_empty_left_out:
            yield (
                f"{counted(self.n_empty_left_out, 'item')} with an empty text stayed out of train and of the "
                "unlabelled items. Check item_properties.text_key, or give them a text."
            )


def plan_splits(
    request: BundleRequest,
    index: ItemIndex,
    targets: Mapping[str, Any],
    touched: frozenset[str],
    own_groups: Mapping[str, str] | None = None,
) -> SplitPlan:
    """The plan for the labelled items in `targets`, and for the items that nobody has `touched`.

    `own_groups` are a trainer's groups by id; an item that is in none is split as the study splits.
    """
    ids = index.ids
    groups = index.groups or [None] * len(ids)
    labelled = {each: group for each, group in zip(ids, groups, strict=True) if each in targets}
    natural = _assigned(request, labelled)
    n_regrouped = 0
    if own_groups is not None:
        labelled = {each: own_groups.get(each) or group for each, group in labelled.items()}
        of_study = natural
        natural = _assigned(request, labelled)
        n_regrouped = sum(own != theirs for own, theirs in zip(natural, of_study, strict=True))
    forced = _forced(request.forced_train, labelled)
    split_of: dict[str, str] = {}
    moved: list[str] = []
    for instance_id, split in zip(labelled, natural, strict=True):
        if split != "train" and instance_id in forced:
            moved.append(instance_id)
            split = "train"
        split_of[instance_id] = split
    if request.include_unlabeled:
        split_of.update((each, UNLABELED) for each in ids if each not in targets and each not in touched)
    left_out = {each for each in index.empty if split_of.get(each) in ("train", UNLABELED)}
    kept = {each: split for each, split in split_of.items() if each not in left_out}
    return SplitPlan(
        kept,
        {each: reason for each, reason in forced.items() if each in kept},
        tuple(each for each in moved if each in kept),
        len(left_out),
        len(labelled),
        n_regrouped,
    )


def _assigned(request: BundleRequest, labelled: Mapping[str, str | None]) -> list[str]:
    keys = [group or each for each, group in labelled.items()]
    return assign(keys, request.split_seed, request.fractions)


def _forced(forced_train: Mapping[str, str], labelled: Mapping[str, str | None]) -> dict[str, str]:
    """The labelled items that must be in train; the rest of their group goes with them."""
    forced = {each: forced_train[each] for each in labelled if each in forced_train}
    groups = {labelled[each] for each in forced} - {None}
    members = (each for each, group in labelled.items() if group in groups and each not in forced)
    return {**forced, **dict.fromkeys(members, GROUP)}
