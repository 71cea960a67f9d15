"""The user's ssh configuration leads to the host, and its awkward lines do no harm."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sshd import Sshd, is_running

from potato_ray.errors import Cancelled
from potato_ray.ssh import Connection, Destination, SshFailed

AWKWARD = """\
  RemoteForward 18099 127.0.0.1:9
  LocalForward 18098 127.0.0.1:9
  ExitOnForwardFailure yes
  RemoteCommand echo taken over
  RequestTTY force
  ControlMaster auto
  ControlPath {folder}/users-own
  ControlPersist 60
  PermitLocalCommand yes
  LocalCommand touch {folder}/local-command
  LogLevel QUIET
  ForwardAgent yes
  ForwardX11 yes
  EscapeChar ~
"""


def works() -> bool:
    with Connection.open(Destination("gpubox")) as connection:
        return connection.run("printf 'a\\nb'", timeout_s=30).out == b"a\nb"


def test_an_awkward_configuration_does_no_harm(host: Sshd, tmp_path: Path) -> None:
    host.configure(host.host_block(more=AWKWARD.format(folder=tmp_path)))
    with Connection.open(Destination("gpubox")) as connection:
        assert connection.run("printf 'a\\nb'; [ -t 1 ] || echo c", timeout_s=30).out == b"a\nbc\n"
        # ExitOnForwardFailure is no order to end a connection for a forward of ours.
        with pytest.raises(SshFailed, match="The forwarded socket could not be made there"):
            connection.forward("/tmp/prt-none/s", "/tmp/prt-none/l")
        for port in (18098, 18099):
            with socket.socket() as probe:
                assert probe.connect_ex(("127.0.0.1", port)) != 0
        assert connection.run('echo "$SSH_AUTH_SOCK$DISPLAY"', timeout_s=30).out == b"\n"
    assert not (tmp_path / "users-own").exists()
    assert not (tmp_path / "local-command").exists()


@pytest.mark.parametrize("line", ["ControlMaster yes", "ControlMaster ask", "ControlMaster autoask"])
def test_a_control_master_of_the_users_own_does_not_make_ours_ask(host: Sshd, line: str) -> None:
    host.configure(host.host_block(more=f"  {line}\n  ControlPath {host.folder}/users-own"))
    assert works()
    assert not (host.folder / "users-own").exists()


def test_a_configuration_that_hides_ssh_s_words_does_not_hide_them_from_us(host: Sshd) -> None:
    host.configure(host.host_block(more="  LogLevel QUIET\n  User nobody"))
    with pytest.raises(SshFailed, match="Permission denied"):
        Connection.open(Destination("gpubox"))


def test_an_ssh_that_goes_into_the_background_does_not_stay_there(host: Sshd) -> None:
    host.configure(host.host_block(more="  ForkAfterAuthentication yes"))
    assert works()


def test_include_and_match_lines_are_followed(host: Sshd) -> None:
    (host.folder / "included").write_text(host.host_block("inner"))
    host.configure(
        f'Include {host.folder}/included\nMatch originalhost gpubox exec "test -d /"\n'
        + host.host_block("inner").partition("\n")[2]
    )
    assert works()
    with Connection.open(Destination("inner")) as connection:
        assert connection.run("echo in", timeout_s=30).out == b"in\n"


def test_a_proxy_command_is_used_and_ends_with_the_connection(host: Sshd) -> None:
    script = host.folder / "proxy.py"
    script.write_text(PROXY)
    proxy = f"  ProxyCommand sh -c 'echo $$ > {host.folder}/proxy.pid; exec python3 {script} {host.port}'"
    host.configure(host.host_block(more=proxy))
    assert works()
    assert not is_running(int((host.folder / "proxy.pid").read_text()))


PROXY = """\
import os, socket, sys, threading
line = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def up():
    while data := os.read(0, 65536):
        line.sendall(data)
    line.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while data := line.recv(65536):
    os.write(1, data)
"""


@pytest.fixture
def bastion(sshd_with: Callable[..., Sshd]) -> Sshd:
    """A host between, known by a key of its own."""
    return sshd_with()


def test_a_jump_host_is_gone_through(host: Sshd, bastion: Sshd) -> None:
    bastion.configure(host.host_block(more="  ProxyJump bastion") + bastion.host_block("bastion"))
    before = bastion.log.count("Accepted publickey")
    with Connection.open(Destination("gpubox")) as connection:
        assert connection.run("echo in", timeout_s=30).out == b"in\n"
        # A channel goes through the login that is there, and not once more through the jump host.
        assert bastion.log.count("Accepted publickey") == before + 1


def test_a_jump_host_that_would_ask_asks_nobody(
    host: Sshd, bastion: Sshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = bastion.folder / "ask"
    ask.write_text(f"#!/bin/sh\ntouch {bastion.folder}/asked\necho yes\n")
    ask.chmod(0o755)
    for name, value in {"DISPLAY": ":0", "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}.items():
        monkeypatch.setenv(name, value)
    (bastion.folder / "known_hosts").write_text("")
    bastion.configure(host.host_block(more="  ProxyJump bastion") + bastion.host_block("bastion"))
    with pytest.raises(SshFailed) as failure:
        Connection.open(Destination("gpubox"))
    assert failure.value.message == "ssh to gpubox failed: Its host key is not known here"
    assert not (bastion.folder / "asked").exists()


def test_a_jump_host_that_does_not_reach_the_host_is_told_from_the_host(host: Sshd, bastion: Sshd) -> None:
    block = host.host_block(more="  ProxyJump bastion").replace(f"Port {host.port}", "Port 1")
    bastion.configure(block + bastion.host_block("bastion"))
    with pytest.raises(SshFailed, match="The jump host cannot reach it") as failure:
        Connection.open(Destination("gpubox"))
    assert "Connection refused" in failure.value.evidence


@pytest.fixture
def agent(host: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ssh-agent that holds a key with a passphrase."""
    path = str(host.folder / "agent")
    process = subprocess.Popen(["ssh-agent", "-D", "-a", path], stdout=subprocess.DEVNULL)
    monkeypatch.setenv("SSH_AUTH_SOCK", path)
    try:
        for _ in range(100):
            done = subprocess.run(["ssh-add", str(host.key)], capture_output=True, check=False, timeout=20)
            if done.returncode == 0:
                break
        yield
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.usefixtures("agent")
def test_a_key_in_the_agent_is_used(host: Sshd) -> None:
    host.configure(
        host.host_block().replace(f"IdentityFile {host.key}", "").replace("IdentitiesOnly yes", "")
    )
    assert works()


def test_a_hashed_known_hosts_file_is_read(host: Sshd) -> None:
    known = host.folder / "known_hosts"
    plain = known.read_text()
    subprocess.run(["ssh-keygen", "-H", "-f", str(known)], capture_output=True, check=True, timeout=20)
    try:
        assert "127.0.0.1" not in known.read_text()
        assert works()
    finally:
        known.write_text(plain)


def test_a_host_key_alias_is_followed(host: Sshd) -> None:
    known = host.folder / "known_hosts"
    plain = known.read_text()
    known.write_text("lab " + plain.partition(" ")[2])
    host.configure(host.host_block(more="  HostKeyAlias lab"))
    try:
        assert works()
    finally:
        known.write_text(plain)


def test_a_line_that_ssh_does_not_know_is_named(host: Sshd) -> None:
    host.configure(host.host_block(more="  Hostname2 x"))
    with pytest.raises(SshFailed, match="The ssh configuration cannot be used") as failure:
        Connection.open(Destination("gpubox"))
    assert "hostname2" in failure.value.evidence.lower()


def test_a_machine_without_ssh_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SshFailed, match="There is no ssh on this machine") as failure:
        Connection.open(Destination("gpubox"))
    assert failure.value.next_step == "Install the OpenSSH client here."


def test_a_connection_is_given_up_on_request(host: Sshd) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(Cancelled, match="The connection to gpubox was given up on request"):
            Connection.open(Destination("gpubox", port=port), stop=lambda: True)


def test_nothing_of_the_destination_is_run(host: Sshd) -> None:
    assert works()
    # As its own word after "--"; the leading "-" itself is refused before.
    with pytest.raises(SshFailed):
        Connection.open(Destination("$(touch${IFS}/tmp/prt-pwned)"))
    assert not Path("/tmp/prt-pwned").exists()
