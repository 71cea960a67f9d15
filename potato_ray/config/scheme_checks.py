"""Checks of annotation_schemes."""

from __future__ import annotations

from typing import Any

from potato_ray.config.document import Document, KeyPath, dotted
from potato_ray.config.spelling import closest, shown

SCHEMES = "annotation_schemes"
_REQUIRED = ("annotation_type", "name", "description")
_SURE = 0.8
_OF_LABELS = ("radio", "multiselect", "select")
"""The annotation types that are nothing without labels."""

_LISTED_BY_POTATO = "use_predefined_labels"
"""The key of a select whose labels, such as all countries, come from Potato."""


def scheme_names(document: Document) -> list[str]:
    """The names of the project's schemes, in their order."""
    names = (scheme.get("name") for scheme in document.list(SCHEMES) if isinstance(scheme, dict))
    return [name for name in names if isinstance(name, str) and name]


def check_schemes(document: Document) -> None:
    """Each scheme has what it needs, a name of its own, and labels that are text."""
    first: dict[str, int] = {}
    for index, scheme in enumerate(document.list(SCHEMES)):
        if not isinstance(scheme, dict):
            continue
        _check_required(document, index, scheme)
        _check_type(document, index, scheme.get("annotation_type"))
        _check_has_labels(document, index, scheme)
        _check_labels(document, (SCHEMES, index, "labels"))
        name = scheme.get("name")
        if isinstance(name, str) and first.setdefault(name, index) != index:
            taken = f"{SCHEMES}[{first[name]}] has the name {name} already"
            document.error((SCHEMES, index, "name"), taken, "duplicate_name")


def _check_required(document: Document, index: int, scheme: dict[str, Any]) -> None:
    for key in _REQUIRED:
        path: KeyPath = (SCHEMES, index, key)
        value = scheme.get(key)
        if key not in scheme:
            written = next((k for k in scheme if k not in _REQUIRED and closest(k, [key])), "")
            where = (SCHEMES, index, written) if written else path
            document.error(
                where, f"every scheme needs {key}, and it is missing", "missing_key", key if written else ""
            )
        elif not isinstance(value, str):
            word = document.words.get(path)
            quoted = f'"{word}"' if word else ""
            document.error(path, f"must be text, not {shown(value)}", "wrong_type", quoted)
        elif not value.strip() and key != "description":
            document.error(path, "must not be empty", "wrong_value")


def _check_type(document: Document, index: int, annotation_type: Any) -> None:
    from potato_ray.project.schemes import KIND_OF_TYPE

    if not isinstance(annotation_type, str) or annotation_type in KIND_OF_TYPE:
        return
    near = closest(annotation_type, KIND_OF_TYPE, _SURE)
    if near:
        message = f"{annotation_type} is no annotation type that a model can learn"
        document.warn((SCHEMES, index, "annotation_type"), message, "unknown_type", near)


def _check_has_labels(document: Document, index: int, scheme: dict[str, Any]) -> None:
    annotation_type, labels = scheme.get("annotation_type"), scheme.get("labels")
    if annotation_type not in _OF_LABELS or (isinstance(labels, list) and labels):
        return
    if scheme.get(_LISTED_BY_POTATO):
        return
    path: KeyPath = (SCHEMES, index, "labels")
    if "labels" not in scheme:
        written = next((k for k in scheme if k not in _REQUIRED and closest(k, ["labels"])), "")
        where = (SCHEMES, index, written) if written else path
        message = f"{annotation_type} needs labels, and they are missing"
        document.error(where, message, "missing_key", "labels" if written else "")
    elif labels is None or labels == []:
        document.error(path, f"{annotation_type} needs labels, and there are none", "wrong_value")
    else:
        document.error(path, f"must be a list, not {shown(labels)}", "wrong_type")


def _check_labels(document: Document, path: KeyPath) -> None:
    first: dict[str, int] = {}
    for index, label in enumerate(document.list(*path)):
        place: KeyPath = (*path, index)
        if isinstance(label, dict) and "name" in label:
            place, label = (*place, "name"), label["name"]
        if isinstance(label, bool):
            word = document.words.get(place, str(label))
            document.error(
                place,
                f"YAML reads the label {word} as the boolean {shown(label)}; put it in quotes",
                "boolean_label",
                f'"{word}"',
            )
        elif label is None:
            document.error(place, "the label is empty", "wrong_value")
        elif first.setdefault(str(label), index) != index:
            taken = f"{dotted((*path, first[str(label)]))} is the label {label} already"
            document.error(place, taken, "duplicate_label")
