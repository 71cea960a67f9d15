"""For which GPUs the torch of an interpreter was built, asked of that interpreter itself."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from potato_ray.backends.gpus import Card
from potato_ray.job.command import run_command

ASK_TIMEOUT_S = 60.0

_MARK = "torch-build: "
_QUESTION = f"""
import json, torch
print({_MARK!r} + json.dumps({{
    "version": torch.__version__,
    "cuda": torch.version.cuda or "",
    "hip": getattr(torch.version, "hip", None) or "",
    "architectures": torch.cuda.get_arch_list(),
}}))
"""
_ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


@dataclass(frozen=True)
class TorchBuild:
    """One torch: `cuda` "" means built without CUDA; `architectures` such as ("sm_80", "compute_90")."""

    version: str
    cuda: str
    architectures: tuple[str, ...] = ()

    def has_kernels_for(self, card: Card) -> bool:
        """Whether this torch can run on `card`; True where that is unknown.

        Machine code (sm_80) runs on the same major version from its minor version on, intermediate
        code (compute_90) on everything from its version on; sm_90a runs on 9.0 alone.
        """
        if not (self.architectures and card.compute_capability):
            return True
        major, minor = (int(part) for part in card.compute_capability.split("."))
        return any(_fits(architecture, major, minor) for architecture in self.architectures)


def ask_torch(python: str, timeout_s: float = ASK_TIMEOUT_S) -> TorchBuild | None:
    """The torch that `python` would import, or None when it has none or does not say."""
    answer = run_command([python, "-c", _QUESTION], timeout_s)
    lines = answer.text.split("\n")
    # Whatever else torch prints while it is imported stands on other lines.
    told = [line.removeprefix(_MARK) for line in lines if line.startswith(_MARK)]
    if answer.code != 0 or not told:
        return None
    body = json.loads(told[-1])
    return TorchBuild(body["version"], body["cuda"] or body["hip"], tuple(body["architectures"]))


def _fits(architecture: str, major: int, minor: int) -> bool:
    found = _ARCHITECTURE.fullmatch(architecture)
    if found is None:
        return False
    kind, built_major, built_minor, suffix = found[1], int(found[2]), int(found[3]), found[4]
    if suffix == "a":
        return (built_major, built_minor) == (major, minor)
    if kind == "compute" and not suffix:
        return (built_major, built_minor) <= (major, minor)
    return built_major == major and built_minor <= minor
