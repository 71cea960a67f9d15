"""What a user reads when nobody is let in: message, ssh's words, next step."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from refusals import new_key, refused
from sshd import Accounts, Sshd

from potato_ray.ssh import Connection, Destination, SshTimeout


def without_key(host: Sshd) -> None:
    host.configure(host.host_block().replace(f"IdentityFile {host.key}", ""))


def test_a_wrong_key(host: Sshd, tmp_path: Path) -> None:
    without_key(host)
    error = refused(identity_file=str(new_key(tmp_path / "other")))
    assert error.message == "ssh to gpubox failed: Permission denied"
    assert "Permission denied (publickey)." in error.evidence
    assert "make `ssh gpubox true` work without a question on this machine" in error.next_step


def test_an_unknown_user(host: Sshd) -> None:
    assert refused(user="nosuchuser").message == "ssh to gpubox failed: Permission denied"


def test_a_key_with_a_passphrase_and_no_agent(
    host: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    without_key(host)
    error = refused(identity_file=str(new_key(tmp_path / "locked", passphrase="secret")))
    assert error.message == "ssh to gpubox failed: Permission denied"
    assert "load a key that has a passphrase into ssh-agent" in error.next_step


def test_a_key_file_that_is_not_there(host: Sshd) -> None:
    without_key(host)
    error = refused(identity_file="/nope/key")
    assert error.message == "ssh to gpubox failed: Permission denied"
    assert "Warning: Identity file /nope/key not accessible" in error.evidence
    assert error.next_step.startswith("The key file is not there")


def test_a_key_file_that_others_can_read(host: Sshd, tmp_path: Path) -> None:
    without_key(host)
    key = tmp_path / "open"
    shutil.copy(host.key, key)
    key.chmod(0o644)
    error = refused(identity_file=str(key))
    assert error.message == "ssh to gpubox failed: Permission denied"
    assert "UNPROTECTED PRIVATE KEY FILE" in error.evidence
    assert "chmod 600" in error.next_step


def test_more_keys_than_the_host_looks_at(sshd_with: Callable[..., Sshd], tmp_path: Path) -> None:
    sshd = sshd_with(extra="MaxAuthTries 2\n")
    keys = "\n".join(f"  IdentityFile {new_key(tmp_path / str(n))}" for n in range(4))
    sshd.configure(sshd.host_block(more=keys))
    error = refused()
    assert error.message == "ssh to gpubox failed: Too many authentication failures"
    assert "IdentitiesOnly yes" in error.next_step


def test_a_login_shell_that_is_not_there(accounts: Accounts, sshd_with: Callable[..., Sshd]) -> None:
    sshd_with([accounts.with_shell("/nope/shell")])
    assert refused().message == "ssh to gpubox failed: Permission denied"


def test_a_port_where_nobody_listens(host: Sshd) -> None:
    error = refused(port=1)
    assert error.message == "ssh to gpubox failed: Connection refused"
    assert "connect to host 127.0.0.1 port 1" in error.evidence


def test_a_name_that_means_nothing(host: Sshd) -> None:
    error = refused(host="nosuchhost.invalid")
    assert error.message == "ssh to nosuchhost.invalid failed: Its name cannot be resolved"
    assert "Could not resolve hostname nosuchhost.invalid" in error.evidence


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], int]]:
    """Makes a port on which everybody is told the same, and hung up on unless it is nothing."""
    servers: list[socket.socket] = []
    taken: list[socket.socket] = []

    def listen(words: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def answer() -> None:
            try:
                line, _ = server.accept()
            except OSError:
                return
            taken.append(line)
            if words:
                line.sendall(words)
                line.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=answer, daemon=True).start()
        return int(server.getsockname()[1])

    yield listen
    for line in [*servers, *taken]:
        line.close()


def test_a_port_that_is_no_sshds(host: Sshd, answering: Callable[[bytes], int]) -> None:
    error = refused(port=answering(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    assert error.message == "ssh to gpubox failed: The connection was closed before the login"
    assert "kex_exchange_identification" in error.evidence


def test_a_port_that_says_nothing(host: Sshd, answering: Callable[[bytes], int]) -> None:
    error = refused(port=answering(b""), connect_timeout_s=1.0)
    assert error.message == "ssh to gpubox failed: It accepted the connection and said nothing"


def test_a_login_that_never_comes_to_an_end(sshd_with: Callable[..., Sshd]) -> None:
    # ssh's own timeout is over once the host has answered.
    sshd = sshd_with(extra="AuthorizedKeysCommand /bin/sleep 60\nAuthorizedKeysCommandUser root\n")
    sshd.rewrite("AuthorizedKeysFile ", "AuthorizedKeysFile none # ")
    with pytest.raises(SshTimeout, match="It did not log in within 2 s"):
        Connection.open(Destination("gpubox", connect_timeout_s=1.0))


def test_too_many_who_log_in_at_once(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with(extra="MaxStartups 1:100:1\n")
    with socket.create_connection(("127.0.0.1", sshd.port)) as first:
        first.recv(10)
        error = refused()
    assert error.message == "ssh to gpubox failed: The connection was closed before the login"
    assert "MaxStartups" in error.next_step


def test_no_algorithm_in_common(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with(extra="Ciphers aes128-ctr\n")
    sshd.configure(sshd.host_block(more="  Ciphers aes256-ctr"))
    error = refused()
    assert error.message == "ssh to gpubox failed: It shares no algorithm with the ssh here"
    assert "no matching cipher found" in error.evidence


def test_an_alias_that_is_no_host_name_is_refused_in_ssh_s_own_words(host: Sshd) -> None:
    assert refused(host="a;b").message == "ssh to a;b failed: The destination cannot be used"
