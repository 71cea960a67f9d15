"""What people should know about answers that the annotators did not agree on."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from potato_ray.project.consensus import Resolution
from potato_ray.project.items import counted, named

MANY_TIES = 0.2
"""The share of ties among the resolved items above which the labels themselves are in doubt."""

_SHOWN = 5


def agreement_warnings(
    resolution: Resolution, n_resolved: int, corrected: Collection[str] = ()
) -> Iterator[str]:
    """Sentences about ties, and about items that were left out for want of a majority.

    `n_resolved` is the number of items with a target, of which `corrected` have theirs from a reviewer.
    """
    tied = [each for each in resolution.tied if each not in corrected]
    if tied:
        yield _ties(tied, n_resolved)
    if len(tied) > MANY_TIES * n_resolved:
        yield (
            "The annotators disagree too often to learn from: they gave different answers to "
            f"{counted(resolution.n_disagreement, 'item')}, and more than {MANY_TIES:.0%} of the labels are "
            "as good as drawn by lot. Do two annotators always disagree, or read a label the other way "
            "round? Look at their answers before you rely on this model or its score."
        )
    unresolved = [each for each in resolution.unresolved if each not in corrected]
    if unresolved:
        were = "was" if len(unresolved) == 1 else "were"
        yield (
            f"{counted(len(unresolved), 'item')} {were} left out, for the annotators disagree without a "
            f"majority: {named(unresolved, _SHOWN)}. Ask for another answer to these items."
        )


def _ties(tied: list[str], n_resolved: int) -> str:
    return (
        f"{len(tied)} of {counted(n_resolved, 'resolved item')} ({_percent(len(tied) / n_resolved)}) "
        f"{'is a tie' if len(tied) == 1 else 'are ties'}, which "
        f"a hash of the item broke: {named(tied, _SHOWN)}. Ask for another answer to these items."
    )


def _percent(share: float) -> str:
    return "less than 1%" if share < 0.01 else f"{share:.0%}"
