"""Whether two bundles of a study split it in the same way; only then can their scores be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from potato_ray.bundle.split_names import SPLITS

_KEYS = {
    "split_seed": "model_training.split_seed",
    "group_key": "model_training.group_key",
    "fractions": "model_training.splits",
}


def split_changes(before: Mapping[str, Any], now: Mapping[str, Any], run_id: str) -> list[str]:
    """One warning for each setting that moves items between splits and differs from the manifest `before`.

    `run_id` names the run that `before` belongs to.
    """
    warnings = [
        f"{key} has changed from {before[name]!r} to {now[name]!r} since run {run_id}: items that were held "
        "out then may be in train now, so this score cannot be compared with earlier ones. Set it back, and "
        "keep it for the life of the study."
        for name, key in _KEYS.items()
        if name in before and name in now and not _same(before[name], now[name])
    ]
    ways = [_way(manifest) for manifest in (before, now)]
    if ways[0] != ways[1]:
        warnings.append(
            f"The split has changed from {ways[0]} to {ways[1]} since run {run_id}: items that were held out "
            "then may be in train now, so this score cannot be compared with earlier ones."
        )
    return warnings


def _way(manifest: Mapping[str, Any]) -> str:
    """How items were grouped, and by which fields: a scaffold of another field is another one."""
    split_by, fields = manifest.get("split_by"), manifest.get("fields") or ()
    if not split_by:
        return "the study's own"
    return f"that by {split_by}{' of ' if fields else ''}{', '.join(map(str, fields))}"


def _same(before: Any, now: Any) -> bool:
    """Whether two settings put every item into the same split; fractions count as shares of their sum."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        pairs = zip(_shares(before), _shares(now), strict=True)
        return all(math.isclose(old, new, abs_tol=1e-9) for old, new in pairs)
    return bool(before == now)


def _shares(fractions: Mapping[str, Any]) -> list[float]:
    parts = [float(fractions.get(name) or 0.0) for name in SPLITS]
    total = sum(parts) or 1.0
    return [part / total for part in parts]
