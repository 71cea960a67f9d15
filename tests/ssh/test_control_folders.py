"""What a kill of everything at once leaves is cleared up by the next login, and nothing else is."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from potato_ray.ssh import control_folder
from potato_ray.ssh.control_folder import LOGIN_S, control_path, new_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the sweep looks at, made a while ago."""
    monkeypatch.setattr(control_folder, "TMP", tmp_path)
    return new_folder()


def listen(folder: Path, monkeypatch: pytest.MonkeyPatch) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(folder)  # for a path that is not too long
    listening.bind("c")
    listening.listen()
    return listening


def test_a_socket_that_nobody_listens_on_goes_with_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen(folder, monkeypatch).close()
    assert new_folder().exists()
    assert not folder.exists()


def test_a_socket_that_somebody_listens_on_stays(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listen(folder, monkeypatch):
        new_folder()
        assert control_path(folder).exists()


def test_a_login_that_is_under_way_keeps_its_folder_for_an_hour(folder: Path) -> None:
    new_folder()
    assert folder.exists()
    before = folder.stat().st_mtime - LOGIN_S - 1
    os.utime(folder, (before, before))
    new_folder()
    assert not folder.exists()


def test_a_login_that_has_taken_its_socket_along_leaves_nothing_else(folder: Path) -> None:
    (folder / "c.AbCd1234").touch()  # of an ssh that is just coming up
    new_folder()
    assert folder.exists()
    (folder / "u").touch()
    new_folder()
    assert not folder.exists()


def test_a_folder_is_private(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
