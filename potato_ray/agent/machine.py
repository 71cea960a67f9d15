"""What an agent tells the server of its machine."""

from __future__ import annotations

import re
import shutil
import socket
import sys
from pathlib import Path
from typing import Any

import potato_ray
from potato_ray.agent.errors import AgentMisconfigured
from potato_ray.agent.packages import Packages
from potato_ray.job.command import run_command

OLDEST_PYTHON = (3, 8)
PYTHON_TIMEOUT_S = 30.0
"""An interpreter on a network file system takes its time when it starts for the first time."""
SMI_TIMEOUT_S = 10.0
_SMI_ALSO_AT = "/usr/lib/wsl/lib"
_QUERY = ("--query-gpu=uuid,name,memory.total,memory.free", "--format=csv,noheader,nounits")
_SAY_VERSION = "import sys; print('%d.%d.%d' % sys.version_info[:3])"


def describe(agent_id: str, python: str, workdir: Path, packages: Packages) -> dict[str, Any]:
    """The `agent` of a claim; `python` is the version of the workers' interpreter, `packages` what it has.

    Asks for the GPUs anew.
    """
    return {
        "id": agent_id,
        "host": socket.gethostname(),
        "python": python,
        "version": potato_ray.__version__,
        "gpus": list_gpus(),
        "workdir": str(workdir),
        "executable": packages.python,
        "lacks": list(packages.missing()),
    }


def python_version(python: str, timeout_s: float = PYTHON_TIMEOUT_S) -> str:
    """The version of an interpreter, such as "3.8.18". Raises AgentMisconfigured when it cannot be used."""
    if python == sys.executable:
        return ".".join(str(part) for part in sys.version_info[:3])
    if shutil.which(python) is None:
        raise _unusable(f"{python} was not found on {socket.gethostname()}.")
    said = run_command([python, "-I", "-c", _SAY_VERSION], timeout_s, with_errors=False)
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", said.text.strip())
    if not found:
        why = said.text if said.code is None else f"it ended with code {said.code} and no version"
        raise _unusable(f"{python} on {socket.gethostname()} is no usable Python: {why}.")
    if (int(found.group(1)), int(found.group(2))) < OLDEST_PYTHON:
        raise _unusable(f"{python} on {socket.gethostname()} is Python {found.group()}; 3.8 is needed.")
    return found.group()


def list_gpus(timeout_s: float = SMI_TIMEOUT_S) -> list[dict[str, Any]]:
    """uuid, name, total_mb and free_mb (None: unknown) of each GPU that nvidia-smi tells of."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=_SMI_ALSO_AT)
    if program is None:
        return []
    said = run_command([program, *_QUERY], timeout_s, with_errors=False)
    return [] if said.code is None else parse_gpus(said.text)


def parse_gpus(text: str) -> list[dict[str, Any]]:
    """The GPUs in nvidia-smi's CSV; lines that are none (warnings, lost cards) are left out."""
    cards = (_parse_line(line) for line in text.splitlines())
    return [card for card in cards if card is not None]


def _parse_line(line: str) -> dict[str, Any] | None:
    parts = [part.strip() for part in line.split(",")]
    if len(parts) < 4 or not parts[0].startswith(("GPU-", "MIG-")):
        return None
    # The name is not quoted: commas beyond the fields are its own.
    name = ", ".join(parts[1:-2])
    return {"uuid": parts[0], "name": name, "total_mb": _number(parts[-2]), "free_mb": _number(parts[-1])}


def _number(text: str) -> int | None:
    """Whole MiB, or None for "[N/A]", "[Not Supported]", "[Insufficient Permissions]" and the like."""
    return int(float(text)) if re.fullmatch(r"\d{1,9}(\.\d+)?", text) else None


def _unusable(message: str) -> AgentMisconfigured:
    return AgentMisconfigured(
        message,
        code="python_unusable",
        next_step="Give the interpreter that has the trainers' packages: --python.",
    )
