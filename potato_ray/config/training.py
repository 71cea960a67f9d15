"""The model_training block."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from potato_ray.bundle.split_names import DEFAULT_FRACTIONS
from potato_ray.config.backends import Backend
from potato_ray.config.blocks import Block
from potato_ray.config.values import (
    AboveZero,
    AtLeastZero,
    AutoOrBool,
    Count,
    Device,
    EnvName,
    MaybeEmpty,
    OffSwitch,
    Positive,
    Share,
    Text,
    Texts,
    WebAddress,
)

Params = Annotated[dict[str, Any], MaybeEmpty]


class Splits(Block):
    """Shares of the items; they need not add up to 1. A block that leaves val or test out has none."""

    train: AtLeastZero
    val: AtLeastZero = 0.0
    test: AtLeastZero = 0.0

    @property
    def fractions(self) -> dict[str, float]:
        """The shares, normalised to 1."""
        total = self.train + self.val + self.test
        return {"train": self.train / total, "val": self.val / total, "test": self.test / total}


class AutoRetrain(Block):
    """Runs that start by themselves; `backend` None: the one of model_training."""

    enabled: bool = False
    trainer: Text | None = None
    schemas: Texts = ()
    params: Params = Field(default_factory=dict)
    backend: Text | None = None
    min_interval_s: AtLeastZero = 600.0
    update_frequency: Positive = 25
    accept_licence: bool = False


class Writeback(Block):
    """Which predictions annotators see."""

    schemas: Texts = ()
    min_confidence: Share = 0.0
    include_unlabeled: bool = False
    field: Text = "predictions"
    gate: Annotated[Literal["off", "warn", "block"], OffSwitch] = "warn"
    score_blind_only: Annotated[Literal["report", "headline", "off"], OffSwitch] = "report"


class Notify(Block):
    """A POST to `url` at the end of each run, signed with the secret in the variable `secret_env`."""

    url: WebAddress = Field(repr=False)
    secret_env: EnvName | None = None


class Tiling(Block):
    """How large images are cut into tiles."""

    enabled: Annotated[bool | Literal["auto"], AutoOrBool] = "auto"
    tile_px: Positive = 1024
    overlap_px: Count = 128
    min_side_px: Positive = 2048
    max_tiles: Positive = 4096


class ModelTraining(Block):
    """All keys of model_training. Times are seconds, memory is MB; None means no limit."""

    enabled: bool = False
    backend: Text = "local"
    backends: Annotated[dict[str, Backend], MaybeEmpty] = Field(default_factory=dict)
    max_concurrent_runs: Positive = 1
    queue_max: Count = 10
    max_wall_seconds: AboveZero | None = None
    grace_seconds: AtLeastZero = 20.0
    max_ram_mb: Positive | None = None
    survive_s: AtLeastZero = 300.0
    num_threads: Positive | None = None
    device: Device = "auto"
    split_seed: Count = 0
    splits: Splits = Splits(**DEFAULT_FRACTIONS)
    aggregation: Literal["consensus", "majority"] = "consensus"
    retain_runs: Count = 5
    max_predictions_mb: AboveZero = 512.0
    trainer_params: Annotated[dict[str, Params], MaybeEmpty] = Field(default_factory=dict)
    auto_retrain: Annotated[AutoRetrain, MaybeEmpty] = AutoRetrain()
    writeback: Annotated[Writeback, MaybeEmpty] = Writeback()
    group_key: Text | None = None
    retry_lost: Count = 0
    notify: Notify | None = None
    tiling: Annotated[Tiling, MaybeEmpty] = Tiling()
