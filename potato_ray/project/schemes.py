"""The annotation schemes of a project, and the kind of answer that each one asks for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Scheme:
    """One annotation scheme.

    `kind` is one of trainers.kinds, or None for a type that nobody can learn (`why_not` says why).
    `labels` are the configured ones in their order; `options` is the scheme's own mapping.
    """

    name: str
    annotation_type: str
    kind: str | None
    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    why_not: str = ""
