"""The two kinds of block: ours, where every key is known, and Potato's, where we read a few."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Block(BaseModel):
    """A block of ours: an unknown key is an error, and no value is bent to fit its type."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True
    )


class PotatoBlock(Block):
    """A block of Potato's, of which we read some keys and leave the others alone."""

    model_config = ConfigDict(extra="ignore")
