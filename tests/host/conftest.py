from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from host_talk import Host
from parts import need_python38
from protocol_server import ProtocolServer


@pytest.fixture(params=["python38", "python311"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    """A host under the oldest Python that it may have, and under our own."""
    there = Host(tmp_path, need_python38() if request.param == "python38" else sys.executable)
    yield there
    there.close()


@pytest.fixture
def one_host(tmp_path: Path) -> Iterator[Host]:
    """A host for what does not depend on its Python."""
    there = Host(tmp_path, need_python38())
    yield there
    there.close()


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    """The server's side of the protocol, at work."""
    with ProtocolServer() as running:
        yield running
