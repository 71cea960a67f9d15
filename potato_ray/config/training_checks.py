"""Checks of model_training that look at more than one value."""

from __future__ import annotations

import math
import posixpath
from typing import Any

from potato_ray.config.document import Document, KeyPath, dotted
from potato_ray.config.scheme_checks import SCHEMES, scheme_names
from potato_ray.config.slurm_cards import asks_for_cards
from potato_ray.config.slurm_time import UNLIMITED, seconds_of
from potato_ray.config.spelling import closest, listed

TRAINING = "model_training"
LOCAL = "local"
_LONG_S = 6 * 3600
_SHORT_S = 10
_NODE_LOCAL = ("/tmp", "/var/tmp")  # noqa: S108 - the places that are refused
_BAD_IN_NAME = frozenset("/\\?#%")


def check_training(document: Document) -> None:
    """Everything in model_training but trainers and their parameters."""
    _check_splits(document)
    check_backend_name(document, (TRAINING, "backend"))
    check_scheme_names(document, (TRAINING, "writeback", "schemas"))
    _check_prefilled(document)
    _check_writeback_field(document)
    _check_tiling(document)
    for name in document.mapping(TRAINING, "backends"):
        _check_backend(document, name)


def backend_names(document: Document) -> list[str]:
    """The backends that a run may name; local is always there."""
    return list(dict.fromkeys([LOCAL, *document.mapping(TRAINING, "backends")]))


def check_backend_name(document: Document, path: KeyPath) -> None:
    """The backend that `path` names, if it names one, is defined."""
    name, known = document.text(*path), backend_names(document)
    if name and name not in known:
        message = f"there is no backend {name}; the backends are {listed(known, 'and')}"
        document.error(path, message, "unknown_backend", closest(name, known))


def check_scheme_names(document: Document, path: KeyPath) -> None:
    """Every entry of the list at `path` is the name of a scheme."""
    known = scheme_names(document)
    for index, name in enumerate(document.list(*path)):
        if isinstance(name, str) and name and name not in known:
            message = f"there is no scheme {name}; the schemes are {listed(known, 'and') or 'none'}"
            document.error((*path, index), message, "unknown_schema", closest(name, known))


def _check_prefilled(document: Document) -> None:
    """Warn of schemes that are published to nobody."""
    from potato_ray.project.schemes import left_empty

    schemes = [scheme for scheme in document.list(SCHEMES) if isinstance(scheme, dict)]
    path: KeyPath = (TRAINING, "writeback", "schemas")
    for index, name in enumerate(document.list(*path)):
        kind = next((left_empty(scheme) for scheme in schemes if scheme.get("name") == name), "")
        if kind:
            message = f"{name} is {kind}; Potato's pages leave it empty, so no annotator sees its predictions"
            document.warn((*path, index), message, "not_prefilled")


def _check_splits(document: Document) -> None:
    splits = document.mapping(TRAINING, "splits")
    shares = [_share(splits.get(name, 0)) for name in ("train", "val", "test")]
    if "train" not in splits or None in shares:
        return
    if not any(shares):
        document.error((TRAINING, "splits"), "the fractions add up to 0", "wrong_value")
    elif not shares[0]:
        document.error((TRAINING, "splits", "train"), "is 0, so nothing would be trained on", "wrong_value")


def _share(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable and value >= 0 else None


def _check_writeback_field(document: Document) -> None:
    field = document.text(TRAINING, "writeback", "field")
    for key in ("id_key", "text_key"):
        if field and field == document.text("item_properties", key):
            message = f"{field} is item_properties.{key}; pre-labels would overwrite it"
            document.error((TRAINING, "writeback", "field"), message, "wrong_value", "predictions")


def _check_tiling(document: Document) -> None:
    tiling = document.mapping(TRAINING, "tiling")
    tile, overlap = tiling.get("tile_px", 1024), tiling.get("overlap_px", 128)
    if type(tile) is int and type(overlap) is int and tile >= 1 and overlap >= tile:
        path = (TRAINING, "tiling", "overlap_px" if "overlap_px" in tiling else "tile_px")
        message = f"tiles of {tile} px cannot overlap by {overlap} px; overlap_px must be below tile_px"
        document.error(path, message, "out_of_range")


def _check_backend(document: Document, name: str) -> None:
    path = (TRAINING, "backends", name)
    if name == LOCAL:
        message = "the name local is reserved for this machine; call the backend something else"
        document.error(path, message, "reserved_name")
    if not name.strip() or name.startswith("-") or not name.isprintable() or _BAD_IN_NAME & set(name):
        message = (
            "a backend's name stands in addresses and commands: letters, digits, dot, dash and underscore"
        )
        document.error(path, message, "wrong_value")
    _check_heartbeat(document, path)
    if document.text(*path, "type") == "slurm":
        _check_slurm(document, path)


def _check_heartbeat(document: Document, path: KeyPath) -> None:
    timeout_s = document.mapping(*path).get("heartbeat_timeout_s")
    if isinstance(timeout_s, int | float) and not isinstance(timeout_s, bool) and 0 < timeout_s < _SHORT_S:
        message = (
            f"{timeout_s:g} is very short: agents report once a second, so a link that falters, or a machine "
            f"that is busy, for {timeout_s:g} s loses the run; {_SHORT_S:g} or more is sensible"
        )
        document.warn((*path, "heartbeat_timeout_s"), message, "short_heartbeat")


def _check_slurm(document: Document, path: KeyPath) -> None:
    remote_dir = document.text(*path, "remote_dir")
    folder = "/" + posixpath.normpath(remote_dir).lstrip("/") if remote_dir.startswith("/") else ""
    if any(folder == place or folder.startswith(f"{place}/") for place in _NODE_LOCAL):
        message = f"{remote_dir} is local to each node; it must lie on storage that the compute nodes share"
        document.error((*path, "remote_dir"), message, "wrong_value")
    if "job_python" not in document.mapping(*path):
        python = document.text(*path, "python", default="python3")
        message = f"it is missing, so the job on the compute node will run {python}, the value of python"
        document.warn((*path, "job_python"), message, "no_job_python")
    _check_slurm_time(document, (*path, "time"))


def _check_slurm_time(document: Document, path: KeyPath) -> None:
    time = document.at(*path)
    if isinstance(time, bool) or not isinstance(time, str | int):
        return
    try:
        seconds = seconds_of(str(time))
    except ValueError:
        return
    if seconds <= _LONG_S:
        return
    # A number of 0 does not look like what it asks for.
    unlimited = ", which is unlimited to SLURM" if seconds == UNLIMITED and str(time)[0] == "0" else ""
    document.warn(
        path,
        f"{dotted(path)} is {time}{unlimited}. {_long_job(document, path[:-1])} is long on a shared cluster; "
        "check its policy",
        "long_slurm_time",
    )


def _long_job(document: Document, path: KeyPath) -> str:
    further = [str(each) for each in document.list(*path, "sbatch_args")]
    holds = asks_for_cards(document.text(*path, "gres"), further)
    return "A job that holds a GPU for more than 6 hours" if holds else "A job of more than 6 hours"
