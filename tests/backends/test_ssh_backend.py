"""The backend ssh without a host: what of a run is alive over there, and which key it logs in with."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from potato_ray.backends.remote_note import NAME, RemoteNote, write_note
from potato_ray.backends.ssh import SshBackend
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.config.backends import SshBackend as Configured
from potato_ray.job.folder import write_json
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import Destination

NOW = 1_000_000.0
NOTE = RemoteNote("gpu1", 1, "/r", "c", "/py", "/tmp/potato-1/s")


@pytest.fixture
def mirror(tmp_path: Path) -> MirrorFolder:
    """A run with a GPU on a host, whose agent was started at NOW."""
    write_note(tmp_path, NOTE)
    os.utime(tmp_path / NAME, (NOW, NOW))
    limits = {"lost_after_s": 300.0, "grace_s": 20.0}
    write_json(tmp_path / "spec.json", {"limits": limits})
    return MirrorFolder(tmp_path)


@pytest.fixture
def is_alive(mirror: MirrorFolder) -> Callable[[float], bool]:
    """Whether something of the run may be alive so many seconds after NOW."""

    def asked(seconds: float) -> bool:
        settings = SshSettings(Destination("gpu1"))
        return SshBackend("gpu", settings, wall_clock=lambda: NOW + seconds).alive(mirror.path)

    return asked


def test_an_agent_that_has_not_reported_yet_may_be_alive_for_as_long_as_it_goes_on_alone(
    is_alive: Callable[[float], bool],
) -> None:
    assert is_alive(1.0)
    assert is_alive(299.0)
    assert not is_alive(1000.0)


@pytest.mark.parametrize("working", [False, True])
def test_one_that_has_reported_may_be_alive_since_then_whatever_it_was_at(
    mirror: MirrorFolder, is_alive: Callable[[float], bool], working: bool
) -> None:
    mirror.beat(working)
    os.utime(mirror.heartbeat, (NOW + 500.0, NOW + 500.0))
    assert is_alive(500.0 + 299.0)
    assert not is_alive(500.0 + 1000.0)


def test_nothing_is_alive_once_the_host_was_cleared_up_or_the_end_was_told(
    mirror: MirrorFolder, is_alive: Callable[[float], bool]
) -> None:
    write_json(mirror.result, {})
    assert not is_alive(1.0)
    mirror.result.unlink()
    write_note(mirror.path, replace(NOTE, cleared=True))
    assert not is_alive(1.0)


@pytest.mark.parametrize(
    ("written", "used"),
    [("keys/lab", "/project/keys/lab"), ("/etc/lab", "/etc/lab"), ("~/lab", "/home/ada/lab"), (None, None)],
)
def test_a_relative_key_lies_beside_the_configuration(
    monkeypatch: pytest.MonkeyPatch, written: str | None, used: str | None
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    configured = Configured(type="ssh", host="gpu1", identity_file=written)
    settings = SshSettings.from_config(configured, "gpu", Path("/project"))
    assert settings.destination.identity_file == used
