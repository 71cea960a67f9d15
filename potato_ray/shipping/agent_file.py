"""agent.pyz: the agent as one file, for machines where nothing of ours is installed.

python3 agent.pyz --server URL …        does what `python3 -m potato_ray.agent` does
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from functools import lru_cache

from potato_ray.shipping.sources import agent_sources

NAME = "agent.pyz"
_FIRST_LINE = b"#!/usr/bin/env python3\n"
_MAIN = b'import runpy\n\nrunpy.run_module("potato_ray.agent", run_name="__main__")\n'
_TIME = (1980, 1, 1, 0, 0, 0)
_READABLE = 0o644 << 16


@dataclass(frozen=True)
class AgentFile:
    """The file and its sha256 in hex."""

    data: bytes
    sha256: str


@lru_cache(maxsize=1)
def agent_file() -> AgentFile:
    """The agent of this version; made once a process. Raises OSError."""
    target = io.BytesIO()
    target.write(_FIRST_LINE)
    with zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "__main__.py", _MAIN)
        for name, path in agent_sources():
            _add(archive, name, path.read_bytes())
    data = target.getvalue()
    return AgentFile(data, hashlib.sha256(data).hexdigest())


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = _READABLE
    entry.create_system = 3  # Unix, wherever it was made
    archive.writestr(entry, content)
