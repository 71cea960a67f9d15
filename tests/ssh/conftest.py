"""One sshd and its accounts for many tests, and the `ssh` that knows them as `gpubox`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sshd import Account, Accounts, Sshd, own_account

from potato_ray.ssh import Connection, Destination


@pytest.fixture(scope="session")
def accounts() -> Iterator[Accounts]:
    with Accounts() as made:
        yield made


@pytest.fixture(scope="session")
def plain_sshd() -> Iterator[Sshd]:
    """An sshd for whoever runs the tests."""
    with Sshd([own_account()]) as sshd:
        yield sshd


@pytest.fixture
def host(plain_sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """The sshd that many tests share, with the configuration as it was."""
    plain_sshd.use(monkeypatch)
    yield plain_sshd
    plain_sshd.configure(plain_sshd.host_block())


@pytest.fixture
def connection(host: Sshd, _no_folder_stays: None) -> Iterator[Connection]:
    with Connection.open(Destination("gpubox")) as opened:
        yield opened


@pytest.fixture
def bash(accounts: Accounts) -> Iterator[Account]:
    """An account with bash, whose start-up file a test may write."""
    account = accounts.with_shell("bash")
    yield account
    (account.home / ".bashrc").unlink(missing_ok=True)


@pytest.fixture
def sshd_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sshd]]:
    """Makes an sshd of the test's own, with lines of its own."""
    running: list[Sshd] = []

    def start(*arguments: object, **options: object) -> Sshd:
        sshd = Sshd(*arguments, **options)  # type: ignore[arg-type]
        sshd.__enter__()
        running.append(sshd)
        sshd.use(monkeypatch)
        return sshd

    yield start
    for sshd in reversed(running):
        sshd.close()


@pytest.fixture(autouse=True)
def _no_folder_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test leaves a control folder, which holds the way into a login."""
    prefix = f"pr-ssh-{os.getpid()}-"
    monkeypatch.setattr("potato_ray.ssh.control_folder.PREFIX", prefix)
    yield
    assert not list(Path("/tmp").glob(f"{prefix}*"))
