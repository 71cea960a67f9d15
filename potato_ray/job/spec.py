"""spec.json: what one worker is to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Mapping

from potato_ray.trainers.base import SchemeSpec

VERSION = 1


@dataclass(frozen=True)
class Limits:
    """Limits of one run; times in seconds, memory in MiB, None: no limit.

    `max_wall_s` counts from the worker's start. `lost_after_s`: the launcher ends the worker when
    nobody has renewed the lease for that long. `gpu_uuids`: None leaves CUDA_VISIBLE_DEVICES alone
    (SLURM sets it), () hides every GPU.
    """

    max_wall_s: float | None = None
    max_ram_mb: int | None = None
    grace_s: float = 20.0
    lost_after_s: float = 300.0
    num_threads: int | None = None
    device: str = "auto"
    gpu_uuids: tuple[str, ...] | None = None


@dataclass(frozen=True)
class JobSpec:
    """One job: the trainer, its parameters (complete, defaults filled in) and the schemes.

    The worker trains on `schemes[0]`. `bundle_dir` is relative to the job folder. `env` is added to
    the worker's environment, which is otherwise built from an allow-list. `trainer_package` is what
    announces the trainer where the server runs, as `name==version`; "" for a trainer of ours.
    """

    run_id: str
    attempt: int
    trainer: str
    schemes: tuple[SchemeSpec, ...]
    params: Mapping[str, Any]
    seed: int = 0
    limits: Limits = field(default_factory=Limits)
    bundle_dir: str = "bundle"
    env: Mapping[str, str] = field(default_factory=dict)
    trainer_package: str = ""
    v: int = VERSION

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> JobSpec:
        """Raises ValueError for another version, KeyError or TypeError for a torn spec."""
        if body.get("v") != VERSION:
            raise ValueError(f"spec.json has version {body.get('v')!r}; this worker reads version {VERSION}")
        values = dict(body)
        values["schemes"] = tuple(
            SchemeSpec(**dict(scheme, labels=tuple(scheme.get("labels", ())))) for scheme in body["schemes"]
        )
        limits = dict(body.get("limits", {}))
        if limits.get("gpu_uuids") is not None:
            limits["gpu_uuids"] = tuple(limits["gpu_uuids"])
        values["limits"] = Limits(**limits)
        return cls(**values)
