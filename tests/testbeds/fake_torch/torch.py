"""As much of torch as choosing a GPU asks for: CUDA is there, one visible card, kernels for it."""

from __future__ import annotations

import os

__version__ = "2.13.0"


class version:  # noqa: N801 - torch's own name
    cuda = "12.8"


class cuda:  # noqa: N801 - torch's own name
    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return len([uuid for uuid in os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",") if uuid])

    @staticmethod
    def get_arch_list() -> list[str]:
        return ["sm_80", "sm_90"]

    @staticmethod
    def get_device_capability(index: int = 0) -> tuple[int, int]:
        return (8, 0)

    @staticmethod
    def get_device_name(index: int = 0) -> str:
        return "NVIDIA A100"


def manual_seed(seed: int) -> None:
    return None
