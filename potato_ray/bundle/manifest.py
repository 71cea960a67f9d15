"""manifest.json: what a bundle holds, and how it came to be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potato_ray.bundle.media import FOLDER as MEDIA_FOLDER
from potato_ray.bundle.reading import VERSION, split_file
from potato_ray.bundle.request import BundleRequest
from potato_ray.bundle.split_names import ALL, UNLABELED
from potato_ray.bundle.trainer_wishes import TrainerWishes
from potato_ray.bundle.writing import SplitFiles
from potato_ray.project.schemes import Scheme

_NO_OPTIONS = ("name", "annotation_type", "description", "tooltip")


def manifest_of(
    request: BundleRequest,
    wishes: TrainerWishes,
    files: SplitFiles,
    stats: Mapping[str, Any],
    modality: str,
    digest: str,
) -> dict[str, Any]:
    """The manifest of a bundle that is written; `stats["label_counts"]` tells the labels that occur."""
    scheme = request.scheme
    labels = list(stats["label_counts"])
    return {
        "v": VERSION,
        "schemas": [
            {
                "name": scheme.name,
                "annotation_type": scheme.annotation_type,
                "kind": scheme.kind,
                "labels": labels,
                "configured_labels": list(scheme.labels),
                "options": _options(scheme),
            }
        ],
        "splits": {name: _split_entry(files, name) for name in ALL},
        "labels": {scheme.name: labels},
        "media_dir": MEDIA_FOLDER,
        "modality": modality,
        "text_key": request.paths.text_key,
        "fields": list(wishes.fields),
        "split_seed": request.split_seed,
        "fractions": dict(request.fractions),
        "group_key": request.group_key,
        "split_by": wishes.split_by,
        "aggregation": request.aggregation,
        "stats": dict(stats),
        "digest": digest,
    }


def _options(scheme: Scheme) -> dict[str, Any]:
    """The scheme's plain settings (mode, size, ranges); long texts and layout have no place in it."""
    plain = {
        key: value
        for key, value in scheme.options.items()
        if key not in _NO_OPTIONS and isinstance(value, (bool, int, float, str))
    }
    scale = scheme.options.get("scale")
    return {**plain, "scale": dict(scale)} if isinstance(scale, Mapping) else plain


def _split_entry(files: SplitFiles, name: str) -> dict[str, Any]:
    entry = {
        "path": split_file(name),
        "format": "jsonl",
        "n": files.rows[name],
        "n_items": len(files.items[name]),
    }
    return {**entry, "predict_only": True} if name == UNLABELED else entry
