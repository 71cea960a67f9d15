"""Validate a configuration file: every problem at once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.config.findings import Finding, Validation
from potato_ray.config.loading import Unreadable, read_document

if TYPE_CHECKING:
    from potato_ray.config.document import Document
    from potato_ray.config.models import ProjectConfig


def validate(path: str | Path) -> Validation:
    """Find everything that is wrong with the file; never raises for what it holds."""
    path = Path(path)
    try:
        document = read_document(path)
    except Unreadable as failure:
        return Validation(path, None, (failure.finding,))
    config = _check(document)
    return _result(document, config)


def load(path: str | Path) -> ProjectConfig:
    """The configuration in the file. Raises ConfigInvalid, which lists every error."""
    return validate(path).require()


def _check(document: Document) -> ProjectConfig | None:
    from potato_ray.config.data_checks import check_data
    from potato_ray.config.notify_checks import check_notify
    from potato_ray.config.planned_checks import check_planned
    from potato_ray.config.project_checks import check_debug, check_near_misses, check_pre_annotation
    from potato_ray.config.scheme_checks import check_schemes
    from potato_ray.config.trainer_checks import check_trainers
    from potato_ray.config.training_checks import check_training

    config = _model(document)
    for check in (
        check_schemes,
        check_data,
        check_training,
        check_trainers,
        check_notify,
        check_pre_annotation,
        check_debug,
        check_near_misses,
        check_planned,
    ):
        check(document)
    return config


def _model(document: Document) -> ProjectConfig | None:
    from pydantic import ValidationError

    from potato_ray.config.complaints import note_complaints
    from potato_ray.config.models import ProjectConfig

    try:
        return ProjectConfig.model_validate({**document.data, "path": document.path.absolute()})
    except ValidationError as invalid:
        note_complaints(document, invalid)
        return None


def _result(document: Document, config: ProjectConfig | None) -> Validation:
    from potato_ray.config.acknowledgement import acknowledge

    found = list(document.findings)
    remaining, acknowledged = acknowledge(document, found)
    findings = sorted([*remaining, *document.findings[len(found) :]], key=_place)
    usable = config if not any(finding.level == "error" for finding in findings) else None
    return Validation(document.path, usable, tuple(findings), tuple(sorted(acknowledged, key=_place)))


def _place(finding: Finding) -> tuple[int, str]:
    return finding.line or 0, finding.key
