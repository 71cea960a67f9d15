"""A host key is never accepted on a user's behalf."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from refusals import new_key, refused
from sshd import Sshd

from potato_ray.ssh import Connection, Destination


@pytest.fixture
def known_hosts(host: Sshd) -> Iterator[str]:
    """What is known at the start, and again at the end."""
    path = host.folder / "known_hosts"
    text = path.read_text()
    yield text
    path.chmod(0o644)
    path.write_text(text)


def forget(host: Sshd, known_hosts: str) -> None:
    (host.folder / "known_hosts").write_text("")


def change(host: Sshd, known_hosts: str) -> None:
    (host.folder / "changed").unlink(missing_ok=True)
    kind, key, *_ = new_key(host.folder / "changed").with_suffix(".pub").read_text().split()
    (host.folder / "known_hosts").write_text(f"{known_hosts.split()[0]} {kind} {key}\n")


@pytest.mark.parametrize("setting", ["", "  StrictHostKeyChecking ask", "  StrictHostKeyChecking yes"])
def test_an_unknown_key_is_refused_and_the_next_step_is_to_log_in_by_hand(
    setting: str, host: Sshd, known_hosts: str
) -> None:
    forget(host, known_hosts)
    host.configure(host.host_block(more=setting))
    error = refused()
    assert error.message == "ssh to gpubox failed: Its host key is not known here"
    assert "Host key verification failed." in error.evidence
    assert error.next_step.startswith("Run `ssh gpubox` once by hand on this machine")
    assert (host.folder / "known_hosts").read_text() == ""


@pytest.mark.parametrize("setting", ["ask", "yes", "accept-new"])
def test_a_changed_key_is_refused_and_the_danger_is_named(setting: str, host: Sshd, known_hosts: str) -> None:
    change(host, known_hosts)
    host.configure(host.host_block(more=f"  StrictHostKeyChecking {setting}"))
    error = refused()
    assert error.message == "ssh to gpubox failed: Its host key has changed"
    assert "REMOTE HOST IDENTIFICATION HAS CHANGED" in error.evidence
    assert error.next_step.startswith("Somebody may be listening in between")
    assert "ssh-keygen -R" in error.next_step
    assert f'-R "[127.0.0.1]:{host.port}"' in error.evidence


def test_a_user_who_accepts_new_keys_is_obeyed(host: Sshd, known_hosts: str) -> None:
    forget(host, known_hosts)
    host.configure(host.host_block(more="  StrictHostKeyChecking accept-new"))
    with Connection.open(Destination("gpubox")) as connection:
        assert connection.run("echo in", timeout_s=30).out == b"in\n"
    assert known_hosts.split()[2] in (host.folder / "known_hosts").read_text()


def test_the_words_about_a_new_key_are_not_taken_for_a_later_failure(host: Sshd, known_hosts: str) -> None:
    forget(host, known_hosts)
    host.configure(host.host_block(more="  StrictHostKeyChecking accept-new\n  User nobody"))
    error = refused()
    assert error.message == "ssh to gpubox failed: Permission denied"
    assert "Permanently added" not in error.evidence
