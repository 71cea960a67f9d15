"""A login that fails, and keys with which it does."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from potato_ray.ssh import Connection, Destination, SshFailed


def refused(**destination: object) -> SshFailed:
    with pytest.raises(SshFailed) as failure:
        Connection.open(Destination(**{"host": "gpubox", **destination}))  # type: ignore[arg-type]
    assert failure.value.code == "ssh_failed"
    assert failure.value.evidence.startswith("ssh says: ")
    assert failure.value.next_step.endswith(".")
    return failure.value


def new_key(path: Path, *, passphrase: str = "") -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)]
    subprocess.run(command, capture_output=True, check=True, timeout=20)
    return path
